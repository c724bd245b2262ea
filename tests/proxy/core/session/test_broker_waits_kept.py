"""What is kept of a Produce until its broker replies, and the reply that is made of it if it does not."""

from __future__ import annotations

import sys

import pytest

from policies.api import Forward, Need, Outcome
from proxy.core.errors import CloseReason
from proxy.core.session.kept_produce import MAX_KEPT_BYTES
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine
from tests.support.throttled import produce9
from tests.support.waiting import POLICIES, WAIT_MS, asked, body_of, indexes, refused

MANY = [(b"orders", [(n, b"r" * 40) for n in range(60)]), (b"t2", [(300, b""), (7, None)])]
SHAPES = {
    "small": [(b"t", [(3, b"r" * 50)])],
    "small, many": [(b"a", [(0, b"r"), (9, b"s")]), (b"b", [(1, b"")])],
    "large, one": [(b"t", [(3, b"r" * 5_000)])],
    "large, one of a long name": [(b"n" * 200, [(70_000, b"r" * 5_000)])],
    "large, many": MANY,
    "nothing": [],
}


@pytest.mark.parametrize("version", [3, 5, 8, 9, 12, 13])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policies", POLICIES)
def test_every_partition_is_named(version, shape, policies):
    """In whatever way the request was read: whole, first or second of its kind, or in pieces."""
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


def test_what_was_asked_counts_and_not_what_was_sent_on():
    """A policy has put a new body in its place: the client is answered for its own."""
    instead = body_of(3, [(b"other", [(1, b"r")])])
    wire = Wire(make_engine([Recorder(lambda _: Forward(body=instead), needs=Need.BODY)]))
    wire.client(asked(3, SHAPES["small"]))
    wire.advance(WAIT_MS)
    assert refused(3, wire.to_client) == indexes(SHAPES["small"])


def large_and_broken() -> bytes:
    """More than is kept as it is, and no Produce any more behind its first topic."""
    broken = bytearray(asked(9, MANY))
    broken[40:44] = b"\xff\xff\xff\xff"
    return bytes(broken)


@pytest.mark.parametrize("chunk", [1 << 20, 100])
@pytest.mark.parametrize("policies", ["none", "asked", "body"])
def test_a_large_produce_that_cannot_be_read_passes_and_is_the_brokers_to_answer(policies, chunk):
    """Nobody asked to look into it; what it is the broker will say, however late."""
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


def test_a_large_malformed_produce_ends_its_session_if_a_policy_wants_to_see_inside():
    """It is told of the end once."""
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
    """Any reply does."""
    return f.reply(correlation_id, b"\x01" + bytes(4) + b"\x00", tagged=True)


def test_a_small_malformed_produce_ends_its_session_when_it_should_be_answered():
    """It went to the broker unread, and the broker does not say what it thinks of it."""
    policy = Recorder()
    wire = Wire(make_engine([policy])).client(asked(3, SHAPES["small"])).broker(f.produce_reply(7))
    broken = asked(3, SHAPES["small, many"]).replace(
        b"\x00\x01b\x00\x00\x00\x01", b"\x00\x01b\xff\xff\xff\xff"
    )
    wire.client(broken)
    assert wire.to_broker.endswith(broken)
    wire.advance(WAIT_MS)
    assert wire.session.ended
    assert wire.attended
    assert wire.to_client == f.produce_reply(7)
    wire.release()
    assert policy.completed == [(1, Outcome.REPLIED), (2, Outcome.DISCONNECTED)]


# -- what is kept -------------------------------------------------------------------------------


def kept_bytes(wire: Wire) -> int:
    """Of the one exchange in flight, without the exchange itself."""
    (exchange,) = wire.session.queue
    assert isinstance(exchange.kept, bytes | bytearray)
    return sys.getsizeof(exchange.kept)


@pytest.mark.parametrize("chunk", [1 << 20, 100])
@pytest.mark.parametrize(
    ("topics", "partitions"), [(1, 1), (1, 30), (1, 2_000), (40, 40), (1_000, 1)]
)
@pytest.mark.parametrize("version", [3, 9, 13])
def test_little_is_kept_of_a_request(version, topics, partitions, chunk):
    """At most a KiB and 32 bytes a partition, however many topics they are spread over."""
    records = b"r" * 60
    many = [
        (b"%016d" % n, [(70_000 + each, records) for each in range(partitions)])
        for n in range(topics)
    ]
    wire = Wire().client(asked(version, many), chunk)
    assert kept_bytes(wire) <= 1_024 + 64 + 32 * topics * partitions
    wire.advance(WAIT_MS)
    assert refused(version, wire.to_client) == indexes(many)


def test_a_large_request_of_one_partition_keeps_its_head_only():
    """The records are the bulk of it."""
    wire = Wire().client(f.produce(1)).broker(f.produce_reply(1))
    for size_bytes in (MAX_KEPT_BYTES, 100_000):
        wire.client(f.produce(2, size_bytes=size_bytes))
        assert kept_bytes(wire) < 200
        wire.broker(f.produce_reply(2))


@pytest.mark.parametrize("size_bytes", range(MAX_KEPT_BYTES - 6, MAX_KEPT_BYTES + 7))
def test_around_the_limit_both_ways_say_the_same(size_bytes):
    """A frame of exactly the limit, one byte less, one more."""
    empty = len(asked(9, [(b"t", [(3, b"r" * 900)])])) - 900
    data = asked(9, [(b"t", [(3, b"r" * (size_bytes - empty))])])
    assert len(data) == size_bytes
    wire = Wire().client(produce9(1)).broker(produce9_reply_to(1)).client(data)
    assert wire.to_broker.endswith(data)
    before = len(wire.to_client)
    wire.advance(WAIT_MS)
    assert refused(9, wire.to_client[before:]) == [(b"t", [3])]


def test_a_long_transactional_id_is_not_kept_for_nothing():
    """The head of the frame may be larger than all that a reply needs."""
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
