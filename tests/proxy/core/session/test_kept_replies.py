"""Replies that are rewritten: the part that is kept, the part that streams, and the memory they reserve."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from policies.api import Need, Throttle
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.rewritten import bounded, metadata_body, share_fetch

MIB = 1 << 20


def metadata(number: int, brokers: int = 3, rest_bytes: int = 2 * MIB) -> tuple[bytes, bytes]:
    """Return a Metadata v1 reply with `rest_bytes` after its brokers, and the reply that the client has to get."""
    tail = struct.pack(">i", 1) + bytes(rest_bytes)

    def listed(host: str, first_port: int) -> bytes:
        body = struct.pack(">i", brokers)
        for node in range(brokers):
            port = first_port + node if node < 4 or first_port == 9092 else 19092
            body += struct.pack(">i", node) + f.string(host) + struct.pack(">i", port)
            body += f.string(f"rack-{node}")
        return body

    real = f.reply(number, listed("kafka.internal.example", 9092) + tail)
    return real, f.reply(number, listed("127.0.0.1", 19093) + tail)


def test_a_reply_streams_once_its_addresses_are_rewritten():
    """Of the Metadata of a large cluster only the list of brokers is held, and the rest of its read."""
    engine = bounded(MIB)
    wire = Wire(engine).client(f.metadata_request(1))
    real, told = metadata(1)
    wire.broker(real, chunk=4096)
    assert wire.to_client == told
    assert engine.reply_pool.peak_bytes < 2 * 4096
    assert engine.reply_pool.used_bytes == 0
    assert not wire.session.queue


@given(
    st.integers(1, 5000),
    st.integers(0, 60),
    st.integers(0, 3000),
    st.booleans(),
    st.integers(0, 2),
)
def test_the_same_bytes_arrive_however_the_reply_is_cut(chunk, brokers, rest, watched, behind):
    """The rewritten list, the new size, the rest of the reply and the replies after it; a throttle is stamped."""
    policies = [Recorder(lambda _: Throttle(500))] if watched else []
    behind = 0 if watched else behind  # a throttled client is not read
    wire = Wire(make_engine(policies))
    asked = f.metadata_request(1)
    wire.client(asked + f.heartbeat(2) * behind)
    real, told = metadata(1, brokers, rest)
    wire.broker(real + f.heartbeat_reply(2) * behind, chunk=chunk)
    assert wire.to_client == told + f.heartbeat_reply(2) * behind
    assert not wire.session.queue
    assert wire.held_bytes == 0


def test_a_throttle_is_written_into_a_reply_that_streams_after_its_addresses():
    """In Metadata v3, whose first field stands before the brokers."""
    brokers = [(1, "kafka-1.real", 9092)]
    real = f.metadata3_reply(1, brokers)
    told = f.metadata3_reply(1, [(1, "127.0.0.1", 19094)], 500)
    for chunk in (1, 9, 30, 1000):
        wire = Wire(make_engine([Recorder(lambda _: Throttle(500))]))
        wire.client(f.request(f.METADATA, 3, 1, b"\xff\xff\xff\xff\x00"))
        wire.broker(real, chunk=chunk)
        assert wire.to_client == told, chunk


def test_a_list_of_brokers_that_never_ends_is_refused():
    """A wrong number of brokers makes Sluice keep only a bounded part of the reply."""
    wire = Wire(bounded(64 * MIB)).client(f.metadata_request(1))
    body = struct.pack(">i", 1_000_000) + bytes(60 * MIB)
    wire.broker(f.reply(1, body))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.engine.reply_pool.peak_bytes <= 20 * MIB
    wire.release()
    assert wire.held_bytes == 0


def test_a_reply_with_its_addresses_at_the_end_reserves_twice_its_size():
    """Before it is read, for it and for the changed reply; the memory is given back when the client has it."""
    engine = bounded(4 * MIB)
    wire = Wire(engine)
    asked, reply = share_fetch(1, MIB)
    wire.client(asked).broker(reply[:1000])
    assert engine.reply_pool.used_bytes == 2 * len(reply)
    wire.broker(reply[1000:])
    assert b"kafka-1.real" not in wire.to_client
    assert b"127.0.0.1" in wire.to_client
    assert engine.reply_pool.peak_bytes == 2 * len(reply)
    assert engine.reply_pool.used_bytes == 0


def test_topic_names_are_learnt_from_metadata_that_streams():
    """A policy that needs topic names does not make Sluice keep Metadata whole."""
    engine = bounded(MIB, Recorder(needs=Need.HEAD, apis={f.PRODUCE}))
    wire = Wire(engine).client(f.request(f.METADATA, 12, 1, bytes(9), tagged=True))
    wire.broker(f.reply(1, metadata_body(12, 300, 100), tagged=True), chunk=5000)
    assert len(engine.rewrites.topics) == 300
    assert engine.rewrites.names_unread == 0
    assert engine.reply_pool.peak_bytes < 3 * 5000
    assert b"kafka-1" not in wire.to_client
    assert not wire.session.queue
