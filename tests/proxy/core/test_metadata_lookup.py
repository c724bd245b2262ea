"""The metadata lookup: the request for a node's address, and its reply in any chunks."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import BrokerProtocolError
from proxy.core.metadata_lookup import MAX_ANSWER_BYTES, MetadataLookup
from proxy.core.topology import Topology
from tests.support.core.sessions import Watcher, make_topology
from tests.support.messages import frames as f
from wire import header

BROKERS = [(0, "kafka-0.real", 9092), (1, "kafka-1.real", 9093), (77, "kafka-77.real", 9094)]
ANSWER = f.metadata_reply(0, BROKERS)


def make() -> tuple[MetadataLookup, Topology, Watcher]:
    watcher = Watcher()
    topology = make_topology(watcher)
    return MetadataLookup(topology), topology, watcher


def test_the_request_is_one_small_metadata_request():
    """It asks for all brokers and no topics, in a version that every broker supports."""
    lookup, _, _ = make()
    (asked,) = f.split(lookup.question)
    assert struct.unpack_from(">hhi", asked, 4) == (f.METADATA, 1, 0)
    assert header.client_id_of(asked, 0, len(asked)) == b"sluice"
    assert asked.endswith(struct.pack(">i", 0))
    assert not lookup.done


@given(st.integers(1, len(ANSWER)))
def test_the_reply_is_learnt_when_its_last_byte_arrives(chunk):
    """Each broker in it that has a port is learnt."""
    lookup, topology, watcher = make()
    for at in range(0, len(ANSWER), chunk):
        assert not lookup.done
        assert watcher.learned == {}
        lookup.feed(ANSWER[at : at + chunk])
    assert lookup.done
    assert {node: topology.address_of(node) for node, _, _ in BROKERS} == {
        node: (host, port) if node < 4 else None for node, host, port in BROKERS
    }


@pytest.mark.parametrize("size", [-1, 0, 7, MAX_ANSWER_BYTES + 1, 0x48545450])
def test_an_invalid_size_is_refused_before_memory_is_used_for_it(size):
    """The bytes may be HTTP, TLS or random."""
    lookup, _, _ = make()
    with pytest.raises(BrokerProtocolError, match=f"size {size} is outside 8"):
        lookup.feed(struct.pack(">i", size))


@pytest.mark.parametrize(
    "answer",
    [
        f.reply(0, struct.pack(">i", 1000)),
        f.reply(0, struct.pack(">i", -2)),
        f.metadata_reply(0, [(1, "", 9092)]),
        f.metadata_reply(0, [(1, "kafka-1", 0)]),
        f.metadata_reply(0, [(1, "kafka-1", 65536)]),
    ],
    ids=["too many", "negative", "no host", "no port", "no such port"],
)
def test_a_reply_that_is_not_metadata_is_the_brokers_fault(answer):
    """Nothing is learnt from it, and the dialer asks the next broker."""
    lookup, _, watcher = make()
    with pytest.raises(BrokerProtocolError, match="Metadata response is malformed"):
        lookup.feed(answer)
    assert not lookup.done
    assert watcher.learned == {}


@pytest.mark.parametrize("brokers", [BROKERS, []])
def test_bytes_after_the_reply_are_not_read(brokers):
    """The connection is closed after it. A reply without brokers is valid."""
    lookup, topology, _ = make()
    lookup.feed(f.metadata_reply(0, brokers) + b"\xff" * 100)
    assert lookup.done
    assert topology.address_of(0) == (("kafka-0.real", 9092) if brokers else None)
