"""Where is node n: the question, and what may come back, in any chunks."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import BrokerProtocolError
from proxy.core.metadata_lookup import MAX_ANSWER_BYTES, MetadataLookup
from proxy.core.topology import Topology
from tests.support import frames as f
from tests.support.sessions import Watcher
from wire import header

BROKERS = [(0, "kafka-0.real", 9092), (1, "kafka-1.real", 9093), (77, "kafka-77.real", 9094)]
ANSWER = f.metadata_reply(0, BROKERS)


def make() -> tuple[MetadataLookup, Topology, Watcher]:
    watcher = Watcher()
    topology = Topology("127.0.0.1", 19092, {n: 19093 + n for n in range(4)}, watcher)
    return MetadataLookup(topology), topology, watcher


def test_the_question_is_one_small_metadata_request_of_our_own():
    """For all brokers and no topics, in a version that every broker answers."""
    lookup, _, _ = make()
    (asked,) = f.split(lookup.question)
    assert struct.unpack_from(">hhi", asked, 4) == (f.METADATA, 1, 0)
    assert header.client_id_of(asked, 0, len(asked)) == b"sluice"
    assert asked.endswith(struct.pack(">i", 0))
    assert not lookup.done


@given(st.integers(1, len(ANSWER)))
def test_the_answer_is_learnt_when_its_last_byte_is_there(chunk):
    """Every broker it names that has a port here."""
    lookup, topology, watcher = make()
    for at in range(0, len(ANSWER), chunk):
        assert not lookup.done
        assert watcher.learned == {}
        lookup.feed(ANSWER[at : at + chunk])
    assert lookup.done
    assert {node: topology.address_of(node) for node, _, _ in BROKERS} == {
        node: (host, port) if node < 4 else None for node, host, port in BROKERS
    }


def test_what_comes_behind_the_answer_is_not_read():
    """The connection is closed after it."""
    lookup, topology, _ = make()
    lookup.feed(ANSWER + b"\xff" * 100)
    assert lookup.done
    assert topology.address_of(0) == ("kafka-0.real", 9092)


def test_a_cluster_without_brokers_is_an_answer():
    """Nothing is learnt by it."""
    lookup, _, watcher = make()
    lookup.feed(f.metadata_reply(0, []))
    assert lookup.done
    assert watcher.learned == {}


@pytest.mark.parametrize("size", [-1, 0, 7, MAX_ANSWER_BYTES + 1, 0x48545450])
def test_a_size_that_cannot_be_is_refused_before_anything_is_kept_for_it(size):
    """HTTP, TLS, or nobody's protocol."""
    lookup, _, _ = make()
    with pytest.raises(BrokerProtocolError, match=f"{size} bytes"):
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
def test_an_answer_that_is_no_metadata_is_the_brokers_fault_and_teaches_nothing(answer):
    """The dialer asks the next one."""
    lookup, _, watcher = make()
    with pytest.raises(BrokerProtocolError, match="no metadata"):
        lookup.feed(answer)
    assert not lookup.done
    assert watcher.learned == {}
