"""The memory of an idle connection: what stays when its requests are answered."""

import gc
import struct
import tracemalloc

from proxy.core.session.in_flight import UNCOUNTED
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive

PAIRS = 20
MAX_BYTES = 3_000
"""Without its two sockets, and the share of the tables of all connections. In CPython 3.11: 2,580."""


def answered(bench) -> None:
    """Connect a client that has asked for the versions, and has produced once."""
    client, broker, _ = bench.link()
    asked = f.request(18, 0, 1, b"")
    client.sendall(asked)
    bench.run(0.005)
    receive(broker, len(asked))
    versions = f.reply(1, struct.pack(">hihhh", 0, 1, 0, 0, 9))
    broker.sendall(versions)
    bench.run(0.005)
    receive(client, len(versions))
    client.sendall(f.produce(2))
    bench.run(0.005)
    receive(broker, len(f.produce(2)))
    broker.sendall(f.produce_reply(2))
    bench.run(0.005)
    receive(client, len(f.produce_reply(2)))


def test_an_idle_connection_is_small(bench):
    """One answered request leaves little behind: no buffer, no queue, no plan for what is asked once."""
    answered(bench)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(PAIRS):
            answered(bench)
        gc.collect()
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = taken.filter_traces([tracemalloc.Filter(True, "*/proxy/*")])
    size_bytes = sum(each.size for each in ours.statistics("filename")) / PAIRS

    assert size_bytes < MAX_BYTES


def test_a_queue_is_a_deque_only_while_it_may_be_long():
    """Up to UNCOUNTED requests in flight a list holds them; with more, a reply would have to move them all."""
    wire = Wire()
    wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED)))
    assert isinstance(wire.session.queue.entries, list)
    wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED, 1000)))
    assert not isinstance(wire.session.queue.entries, list)

    replies = b"".join(f.beat_reply(n) for n in range(1000))
    assert wire.broker(replies).to_client == replies
    assert len(wire.session.queue) == 0
