"""The part of a Produce that is kept until the broker replies, and the timeout reply that is made from it."""

import sys
from itertools import product

import pytest

from policies.api import Forward, Need, Outcome
from proxy.core.errors import CloseReason
from proxy.core.session.frame_heads import MAX_KEPT_BYTES
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import produce9
from tests.support.messages.waiting import POLICIES, WAIT_MS, asked, body_of, indexes, refused

MANY = [(b"orders", [(n, b"r" * 40) for n in range(60)]), (b"t2", [(300, b""), (7, None)])]
SHAPES = {
    "small": [(b"t", [(3, b"r" * 50)])],
    "small, many": [(b"a", [(0, b"r"), (9, b"s")]), (b"b", [(1, b"")])],
    "large, one": [(b"t", [(3, b"r" * 5_000)])],
    "large, one of a long name": [(b"n" * 200, [(70_000, b"r" * 5_000)])],
    "large, many": MANY,
    "nothing": [],
}


@for_each([*product([3, 5, 8, 12, 13], SHAPES, ["none"]), *product([9], SHAPES, POLICIES)])
def test_a_timeout_reply_names_every_partition(version, shape, policies):
    """The request may be read whole, as the first or second of its kind, or in pieces."""
    topics = SHAPES[shape]
    if version >= 13:
        topics = [(bytes([place]) * 16, each) for place, (_, each) in enumerate(topics, 1)]
    data = asked(version, topics)
    for chunk in (1 << 20, 100):
        wire = Wire(make_engine(POLICIES[policies]()))
        for _ in range(2):  # the second finds its plan
            wire.client(data, chunk)
            wire.advance(WAIT_MS + 1)
            wire.advance(WAIT_MS + 1)
        first, second = f.split(wire.to_client)
        assert refused(version, first) == indexes(topics)
        assert refused(version, second) == indexes(topics)
        assert wire.session.reason is None
        assert wire.to_broker == data * 2


def test_a_timeout_reply_names_the_partitions_that_the_client_sent():
    """Not those of the body that a policy put in its place."""
    instead = body_of(3, [(b"other", [(1, b"r")])])
    wire = Wire(make_engine([Recorder(lambda _: Forward(body=instead), needs=Need.BODY)]))
    wire.client(asked(3, SHAPES["small"]))
    wire.advance(WAIT_MS)
    assert refused(3, wire.to_client) == indexes(SHAPES["small"])


def large_and_broken() -> bytes:
    """Return a Produce v9 that is larger than MAX_KEPT_BYTES and malformed after its first topic."""
    broken = bytearray(asked(9, MANY))
    broken[40:44] = b"\xff\xff\xff\xff"
    return bytes(broken)


@pytest.mark.parametrize("chunk", [1 << 20, 100])
@pytest.mark.parametrize("policies", ["none", "asked"])
def test_a_large_malformed_produce_passes_when_no_policy_needs_its_head(policies, chunk):
    """Sluice makes no reply for it: the broker answers, however late."""
    entries = POLICIES[policies]()
    broken = large_and_broken()
    wire = Wire(make_engine(entries)).client(asked(9, SHAPES["small"])).broker(produce9_reply_to(7))
    wire.client(broken, chunk)
    assert wire.to_broker.endswith(broken)
    wire.advance(10 * WAIT_MS)
    assert wire.to_client == produce9_reply_to(7)
    wire.broker(produce9_reply_to(7))
    assert wire.to_client == produce9_reply_to(7) * 2
    wire.release()
    assert wire.held_bytes == 0
    for policy in entries:
        assert sorted(number for number, _ in policy.completed) == policy.asked


def test_a_large_malformed_produce_ends_its_session_when_a_policy_needs_its_head():
    """The policy hears of the end of each request once."""
    (policy,) = POLICIES["head"]()
    wire = (
        Wire(make_engine([policy])).client(asked(9, SHAPES["small"])).broker(produce9_reply_to(7))
    )
    wire.client(large_and_broken())
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    wire.release()
    assert wire.held_bytes == 0
    assert wire.watcher.internal == []
    assert sorted(number for number, _ in policy.completed) == policy.asked


def produce9_reply_to(correlation_id: int) -> bytes:
    """Return a reply whose content does not matter."""
    return f.reply(correlation_id, b"\x01" + bytes(4) + b"\x00", tagged=True)


WHOLE = asked(3, SHAPES["small, many"])
SMALL_AND_BROKEN = {
    "a count below zero": WHOLE.replace(b"\x00\x01b\x00\x00\x00\x01", b"\x00\x01b\xff\xff\xff\xff"),
    "an end inside its topics": f.frame(WHOLE[4:-20]),
    "no topics": f.frame(asked(3, [])[4:-4]),
}


@for_each([*product(SMALL_AND_BROKEN.values(), [1 << 20, 100, 7])])
def test_a_small_malformed_produce_is_left_to_its_broker(broken, chunk):
    """It was forwarded unread, and no timeout reply is made for it."""
    policy = Recorder()
    wire = Wire(make_engine([policy])).client(asked(3, SHAPES["small"])).broker(f.produce_reply(7))
    wire.client(broken, chunk)
    assert wire.to_broker.endswith(broken)
    wire.advance(WAIT_MS)
    wire.advance(10 * WAIT_MS)
    assert wire.to_client == f.produce_reply(7)
    wire.broker(f.produce_reply(7))
    assert wire.to_client == f.produce_reply(7) * 2
    wire.release()
    assert wire.watcher.internal == []
    assert policy.completed == [(1, Outcome.REPLIED), (2, Outcome.REPLIED)]


# -- what is kept -------------------------------------------------------------------------------


SIZES = [(1, 1), (1, 30), (1, 2_000), (40, 40), (1_000, 1)]
"""Topics, and partitions of each."""


def kept_bytes(wire: Wire) -> int:
    """Return the bytes kept of the one request in flight, without its exchange."""
    (exchange,) = wire.session.queue
    assert isinstance(exchange.kept, bytes | bytearray)
    return sys.getsizeof(exchange.kept)


@for_each([*product([3, 9, 13], SIZES, [1 << 20]), *product([9], SIZES, [100])])
def test_little_is_kept_of_a_request(version, size, chunk):
    """At most 1 KiB and 32 bytes a partition, however many topics they are spread over."""
    topics, partitions = size
    records = b"r" * 60
    many = [
        (b"%016d" % n, [(70_000 + each, records) for each in range(partitions)])
        for n in range(topics)
    ]
    wire = Wire().client(asked(version, many), chunk)
    assert kept_bytes(wire) <= 1_024 + 64 + 32 * topics * partitions
    wire.advance(WAIT_MS)
    assert refused(version, wire.to_client) == indexes(many)


def test_only_the_head_of_a_large_request_of_one_partition_is_kept():
    """Its records, nearly all of its bytes, are not."""
    wire = Wire().client(f.produce(1)).broker(f.produce_reply(1))
    for size_bytes in (MAX_KEPT_BYTES, 100_000):
        wire.client(f.produce(2, size_bytes=size_bytes))
        assert kept_bytes(wire) < 200
        wire.broker(f.produce_reply(2))


@for_each(range(MAX_KEPT_BYTES - 6, MAX_KEPT_BYTES + 7))
def test_frames_around_the_limit_get_the_same_timeout_reply(size_bytes):
    """From six bytes below MAX_KEPT_BYTES to six bytes above."""
    empty = len(asked(9, [(b"t", [(3, b"r" * 900)])])) - 900
    data = asked(9, [(b"t", [(3, b"r" * (size_bytes - empty))])])
    assert len(data) == size_bytes
    wire = Wire().client(produce9(1)).broker(produce9_reply_to(1)).client(data)
    assert wire.to_broker.endswith(data)
    before = len(wire.to_client)
    wire.advance(WAIT_MS)
    assert refused(9, wire.to_client[before:]) == [(b"t", [3])]


def test_a_long_transactional_id_is_not_kept():
    """A timeout reply does not need it."""
    body = body_of(3, [(b"t", [(3, b"r" * 50)])], transactional_id=b"x" * 30_000)
    wire = Wire()
    for number in (7, 7):
        wire.client(f.request(f.PRODUCE, 3, number, body))
        assert kept_bytes(wire) < 100
        wire.advance(WAIT_MS)
        wire.broker(f.produce_reply(7))
        wire.client(f.produce(8)).broker(f.produce_reply(8))  # the broker is trusted again
    told, usual, again, _ = f.split(wire.to_client)
    assert usual == f.produce_reply(8)
    assert [refused(3, each) for each in (told, again)] == [[(b"t", [3])]] * 2
