"""One session in this process, without sockets or kernel: the CPU time of a request and its reply.

Unless a case has other frames, they are a Produce v9 of 100 bytes and its reply.

Requests and replies come in batches, as the event loop delivers them. The session's clock is advanced by hand, so a
throttle of a second takes no time. A round consists of slices of a few milliseconds in which all cases take turns, so
that a slow machine slows all of them. A figure that compares two cases is computed inside each round; then the median
over the rounds is taken.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Final, NamedTuple

from bench.harness.figures import Spread, spread
from proxy.core.engine import Engine
from proxy.core.session.channel import ATTENTION, Channel

BATCH: Final = 16
MAX_JOINED_BYTES: Final = 262_144
"""The event loop offers the kernel so many bytes at once."""
SLICES: Final = 20
REQUESTS: Final = 16_000
_RECORDS: Final = bytes(100)
_TOPIC: Final = b"\x02\x06topic\x02"
_HEAD: Final = pack(">hhi", 0, 9, 1) + pack(">h", 6) + b"client" + b"\x00"
_BODY: Final = (
    b"\x00"  # no transactional id
    + pack(">hi", -1, 30_000)  # acks=all
    + _TOPIC
    + pack(">i", 0)
    + bytes([len(_RECORDS) + 1])
    + _RECORDS
    + b"\x00\x00\x00"
)
_REPLY: Final = (
    _TOPIC + pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00\x00" + pack(">i", 0) + b"\x00"
)
PRODUCE: Final = pack(">i", len(_HEAD) + len(_BODY)) + _HEAD + _BODY
PRODUCE_REPLY: Final = pack(">iix", 5 + len(_REPLY), 1) + _REPLY


class Taken(NamedTuple):
    """Microseconds of CPU per request and reply: of the thread that forwards, and of all threads."""

    loop_us: float
    all_us: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU per request and reply on the loop; the added figures are None for a yardstick."""

    name: str
    own: Spread
    added: Spread | None = None
    added_in_all: Spread | None = None


class SessionLoop:
    """A session that is fed batches of the same request and reply.

    A slice has `requests / SLICES` of them, `per_ms` batches in each millisecond of the session's clock. `yardstick`
    names the case to compare with (empty: none). `throttles`: every request must be throttled. `threads_ns` returns
    the CPU time of other threads that work for it. `frames` are the request and its reply, with correlation id 1.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        yardstick: str = "",
        *,
        requests: int = REQUESTS,
        batch: int = BATCH,
        per_ms: int = 1,
        throttles: bool = False,
        threads_ns: Callable[[], int] = lambda: 0,
        frames: tuple[bytes, bytes] = (PRODUCE, PRODUCE_REPLY),
    ) -> None:
        session = engine.connect("127.0.0.1", 40000, None)
        if session is None:
            raise RuntimeError(f"{name}: the connection was refused")
        self.name = name
        self.yardstick = yardstick
        self.threads_ns = threads_ns
        self.batches = max(1, requests // batch // SLICES)
        self.batch = batch
        self._engine = engine
        self._session = session
        self._per_ms = per_ms
        self._throttles = throttles
        self._now_ms = 1000
        self._requests = bytearray(frames[0] * batch)
        self._replies = bytearray(frames[1] * batch)

    def run(self) -> int:
        """Run one slice; return the nanoseconds of this thread.

        Raises:
            RuntimeError: the session did something else than forward (or throttle) every request.
        """
        session, engine, per_ms = self._session, self._engine, self._per_ms
        requests, replies = self._requests, self._replies
        size, answer, now_ms = len(requests), len(replies), self._now_ms
        muted = 0
        began = time.thread_time_ns()
        for turn in range(self.batches):
            now_ms += turn % per_ms == 0
            engine.advance(now_ms)
            sent = session.from_client(requests, 0, size, now_ms)
            muted |= session.throttle is not None and session.throttle.lasts(now_ms)
            if sent == ATTENTION:
                sent = _send(session.broker)
            left = session.from_broker(replies, 0, answer, now_ms)
            if left == ATTENTION:
                left = _send(session.client)
            if sent != size or left != answer:
                break  # some bytes were kept
            while engine.turns.queue:
                engine.turns.end(engine.turns.take(), 0)
        taken_ns = time.thread_time_ns() - began
        self._now_ms = now_ms
        if session.ended or session.queue or bool(muted) != self._throttles:
            raise RuntimeError(f"{self.name}: the session did not do what this case measures")
        return taken_ns


def measure(loops: Sequence[SessionLoop], rounds: int) -> list[Cost]:
    """Measure every case after a warm-up; return the costs in the order of the cases."""
    _round(loops, 0)  # makes the plans and warms the caches
    found = [_round(loops, number % len(loops)) for number in range(rounds)]
    taken = {loop.name: own for loop, own in zip(loops, zip(*found, strict=True), strict=True)}
    costs = []
    for loop in loops:
        own = spread(one.loop_us for one in taken[loop.name])
        if not loop.yardstick:
            costs.append(Cost(loop.name, own))
            continue
        pairs = list(zip(taken[loop.name], taken[loop.yardstick], strict=True))
        added = spread(ours.loop_us - base.loop_us for ours, base in pairs)
        in_all = spread(ours.all_us - base.all_us for ours, base in pairs)
        costs.append(Cost(loop.name, own, added, in_all))
    return costs


def _send(channel: Channel) -> int:
    """Return how many bytes waited for this side; they count as sent, joined as the event loop does it."""
    size_bytes = channel.unsent_bytes
    if size_bytes:
        channel.front(MAX_JOINED_BYTES)
        channel.sent(size_bytes)
    return size_bytes


def _round(loops: Sequence[SessionLoop], first: int) -> list[Taken]:
    """Run all cases slice by slice, beginning with `first`."""
    began = [loop.threads_ns() for loop in loops]
    loop_ns = [0] * len(loops)
    order = [*range(first, len(loops)), *range(first)]  # no case always follows the same other
    gc.collect()
    gc.disable()
    for _ in range(SLICES):
        for place in order:
            loop_ns[place] += loops[place].run()
    gc.enable()
    rows = []
    for loop, own_ns, threads_ns in zip(loops, loop_ns, began, strict=True):
        count = SLICES * loop.batches * loop.batch * 1000
        rows.append(Taken(own_ns / count, (own_ns + loop.threads_ns() - threads_ns) / count))
    return rows
