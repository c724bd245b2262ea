"""T27: the legal size of a large cluster, taken for an attack.

Budgets come from legal maxima (200,000 partitions). Such Metadata passes, and its names are learnt or skipped.
"""

from struct import pack

import pytest

from policies.api import Need
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.large_clusters import large_cluster
from tests.support.processes.measured import tell
from wire.addresses import rewriter
from wire.apis import ApiKey
from wire.metadata import topic_names
from wire.primitives import encode_compact, encode_compact_count


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@pytest.mark.parametrize(("topics", "count"), [(1_700, 12), (2_000, 100), (200_000, 1)])
def test_a_legal_cluster_of_200_000_partitions_fits_the_budget(version, topics, count):
    """Complete and shortened in-sync lists, offline replicas, and one or many partitions a topic all fit."""
    shapes = [(3, 3, 0), (3, 3, 0), (3, 2, 1), (3, 3, 0)]
    body = large_cluster(version, topics, shapes, count)
    names = topic_names(body, 0, len(body), api_of(ApiKey.METADATA, version))
    assert len(names) == topics
    assert names[pack(">QQ", 1, topics - 1)] == f"topic-{topics - 1}"


@pytest.mark.parametrize(("topics", "count"), [(1_700, 12), (20_000, 10)])
def test_metadata_of_a_large_cluster_passes_while_names_are_learnt(topics, count):
    """All names are learnt and the client gets every byte, for a policy that reads topic names."""
    engine = make_engine([Recorder(needs=Need.HEAD)])
    body = large_cluster(12, topics, [(3, 3, 0), (3, 2, 1)], count)
    wire = Wire(engine).client(f.request(f.METADATA, 12, 1, bytes(9), tagged=True))
    wire.broker(f.reply(1, bytes(body), tagged=True))
    assert not wire.session.ended
    assert wire.to_client == f.reply(1, bytes(body), tagged=True)
    assert len(engine.rewrites.topics) == topics
    assert engine.rewrites.names_unread == 0
    tell(
        "T27",
        f"Metadata of {topics:,} topics x {count}, {len(body):,} bytes: passed, all names learnt",
    )


def test_a_produce_reply_of_200_000_partitions_fits_the_budget():
    """A version that may name brokers is walked, and fits."""
    partition = pack(">ihqqq", 0, 0, 5, -1, 0) + b"\x01\x00\x00"
    body = b"\x02" + encode_compact(b"orders") + encode_compact_count(200_000) + partition * 200_000
    body = bytearray(body + b"\0" + bytes(4) + b"\0")
    rewrite = rewriter(api_of(ApiKey.PRODUCE, 12))
    assert rewrite is not None
    assert rewrite(body, 0, len(body), lambda *_: (b"proxy", 19092)) is None
