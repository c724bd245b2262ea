"""T2: lengths and counts that lie: overlong varints, sizes beyond the frame, nulls where none may be, floods of tags.

A reader checks before it loops or allocates, and every element costs budget. `tests/wire/test_any_bytes.py` gives any
bytes to every reader, and `tests/fuzz` to whole sessions; here are the figures, for every API in both directions.
"""

import random
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from policies.api import Need
from proxy.core.errors import CloseReason
from tests.fuzz import grammar
from tests.fuzz.mutation import refit
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of, name
from tests.support.processes.measured import counted_work, scaled, tell
from wire.apis import Api, ApiKey

FRAME_BYTES = 64 << 10
LINES_PER_FRAME = 500_000
"""Of 64 KiB: the row's 50 ms at 0.1 us a line, more than a line takes."""
MEMORY_FACTOR = 4
LIES = {
    "ten bytes of a varint": b"\xff" * 9 + b"\x01",
    "an overlong zero": b"\x80\x80\x80\x80\x00",
    "a varint of 2^32 - 1": b"\xff\xff\xff\xff\x0f",
    "a compact length of 2 GiB": b"\x80\x80\x80\x80\x08",
    "a length of 2 GiB": b"\x7f\xff\xff\xff",
    "a length of -2": b"\xff\xff\xff\xfe",
    "a null": b"\xff\xff\xff\xff",
    "a compact null": b"\x00",
}
FLOODS = {
    "tags": b"\xff\xff\x03" + b"".join(bytes((n % 128, 0)) for n in range(FRAME_BYTES // 2)),
    "ones": b"\x01" * FRAME_BYTES,
    "twos": b"\x02" * FRAME_BYTES,
    "zeros": b"\x00" * FRAME_BYTES,
}
FAIR = frozenset(CloseReason) - {CloseReason.INTERNAL, CloseReason.POLICY_FAULT}
EPISODES = scaled(4, 60)
KEYS = sorted({(api.key, api.version) for api in grammar.apis()})


def wire_for(need: Need = Need.BODY) -> Wire:
    return Wire(make_engine([Recorder(needs=need)]))


def check(wire: Wire, lines: int, size_bytes: int) -> None:
    """No fault but the peer's, and no more work than a frame of 64 KiB may cost."""
    assert wire.watcher.internal == []
    assert not wire.watcher.policy_errors
    assert wire.session.reason in {None, *FAIR}
    assert lines <= LINES_PER_FRAME * max(size_bytes, 2_000) // FRAME_BYTES


def lies_in(frame: bytes, chance: random.Random) -> Iterator[bytes]:
    """Yield the frame with each lie in the place of one byte of its body."""
    for lie in LIES.values():
        at = chance.randrange(12, len(frame)) if len(frame) > 12 else len(frame)
        yield refit(frame[:at] + lie + frame[at + 1 :])


@pytest.mark.parametrize(("key", "version"), KEYS, ids=str)
def test_one_false_length_costs_its_sender_alone(key: int, version: int) -> None:
    """A valid request or reply with one length overwritten is forwarded, refused or ends the session; no more."""
    api = api_of(key, version)
    chance = random.Random(version << 8 | key)
    for _ in range(EPISODES):
        for asked in lies_in(grammar.request(api, 1, chance), chance):
            wire = wire_for()
            with counted_work() as work:
                wire.client(asked)
            check(wire, work.lines, len(asked))
        question = grammar.request(api, 1, chance)
        for reply in lies_in(grammar.reply(api, 1, chance), chance):
            wire = wire_for(Need.HEAD)
            wire.client(question)
            with counted_work() as work:
                wire.broker(reply)
            check(wire, work.lines, len(reply))


FLOODED = [
    api_of(key, version)
    for key, version in (
        (ApiKey.METADATA, 12),
        (ApiKey.PRODUCE, 11),
        (ApiKey.FETCH, 15),
        (ApiKey.CREATE_TOPICS, 7),
        (ApiKey.FIND_COORDINATOR, 6),
    )
]


def flooded(api: Api, flood: bytes, *, is_reply: bool) -> bytes:
    """Return a frame of 64 KiB whose body is the flood."""
    if is_reply:
        return f.reply(1, flood, tagged=api.response_header_version == 1)
    return f.request(api.key, api.version, 1, flood, tagged=True)


def feed_flood(api: Api, flood: bytes, *, is_reply: bool, chunk: int) -> tuple[int, float]:
    """Return the lines of work in one read, and the peak of memory by the frame's size in reads of `chunk` bytes."""
    frame = flooded(api, flood, is_reply=is_reply)
    for size in (1 << 18, chunk):
        wire = wire_for(Need.HEAD)
        if is_reply:
            wire.client(grammar.request(api, 1, random.Random(1)))
        feed = wire.broker if is_reply else wire.client
        if size != chunk:
            with counted_work() as work:
                feed(frame)
            check(wire, work.lines, len(frame))
            continue
        tracemalloc.start()
        feed(frame, chunk)
        peak = tracemalloc.get_traced_memory()[1] / len(frame)
        tracemalloc.stop()
    return work.lines, peak


def test_a_flood_of_64_kib_costs_little() -> None:
    """Little work, and in memory less than four times the frame, in both directions."""
    most_lines, most_memory = 0, 0.0
    for api in FLOODED:
        for kind, flood in FLOODS.items():
            for is_reply in (False, True):
                lines, peak = feed_flood(api, flood, is_reply=is_reply, chunk=8192)
                assert peak < MEMORY_FACTOR, (name(api), kind)
                most_lines, most_memory = max(most_lines, lines), max(most_memory, peak)
    tell("T2", f"floods of 64 KiB: at most {most_lines:,} lines of {LINES_PER_FRAME:,} and {most_memory:.1f} times "
         "their size in memory")  # fmt: skip


def test_a_size_is_not_believed_before_its_bytes_come() -> None:
    """A count of two thousand million in a frame of 64 KiB allocates nothing for it."""
    body = struct.pack(">i", 2**31 - 1) + bytes(1000)
    wire = wire_for()
    wire.client(f.request(f.DELETE_TOPICS, 1, 1))  # so that what is made once is made now
    tracemalloc.start()
    wire = wire_for()
    wire.client(f.request(f.DELETE_TOPICS, 1, 1, body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
