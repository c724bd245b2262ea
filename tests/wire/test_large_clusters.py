"""Replies of a large cluster fit the budget, and lists of changing shape take linear work.

The work is counted in bytes that a walker slices out of the body to compare neighbours, not in time.
"""

from __future__ import annotations

from struct import pack

import pytest

from policies.api import Need
from tests.support import frames as f
from tests.support.kafka_messages import api_of
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine
from wire.addresses import rewriter
from wire.apis import ApiKey
from wire.metadata import topic_names
from wire.primitives import encode_compact, encode_compact_count


class Counting(bytearray):
    """Counts the bytes sliced out of it: the work of a walker that compares neighbours."""

    cut_bytes = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.cut_bytes += len(found)
        return found


def large_cluster(
    version: int, topics: int, shapes: list[tuple[int, int, int]], count: int
) -> Counting:
    """Return a Metadata body of `topics` topics with `count` partitions each;
    partitions take their (replicas, in-sync, offline) from the list in turn.
    """
    sizes = shapes * (count // len(shapes) + 1)
    partitions = b"".join(
        pack(">hiii", 0, n, n % 7, 3) + b"".join(encode_compact_count(e) + bytes(4 * e) for e in each) + b"\0"
        for n, each in enumerate(sizes[:count])
    )  # fmt: skip
    parts = [bytes(4), encode_compact_count(0), b"\x00", bytes(4), encode_compact_count(topics)]
    for n in range(topics):
        parts += [b"\0\0", encode_compact(b"topic-%d" % n), pack(">QQ", 1, n), b"\0"]
        parts += [encode_compact_count(count), partitions, bytes(4), b"\0"]
    end = bytes(2) if version >= 13 else b""
    return Counting(b"".join(parts) + end + b"\0")


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@pytest.mark.parametrize(("topics", "count"), [(1_700, 12), (2_000, 100), (200_000, 1)])
def test_a_legal_cluster_of_200_000_partitions_fits_the_budget(version, topics, count):
    """Complete and shortened in-sync lists, offline replicas, and one or many partitions a topic all fit."""
    shapes = [(3, 3, 0), (3, 3, 0), (3, 2, 1), (3, 3, 0)]
    body = large_cluster(version, topics, shapes, count)
    names = topic_names(body, 0, len(body), api_of(ApiKey.METADATA, version))
    assert len(names) == topics
    assert names[pack(">QQ", 1, topics - 1)] == f"topic-{topics - 1}"


@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 3, 0)],
        [(3, 3, 0), (3, 2, 1)],
        [(3, 3, 0)] * 2 + [(3, 2, 0)] * 2,
        [(3, 3, 0)] * 19 + [(3, 2, 1)],
        [(3, 3, 0)] * 99 + [(3, 2, 0)],
    ],
)
def test_the_work_for_partitions_of_changing_shape_is_linear(shapes):
    """Twice as many partitions take about twice the work, in any sequence of shapes."""
    work = []
    for count in (4_000, 8_000):
        body = large_cluster(12, 1, shapes, count)
        assert len(topic_names(body, 0, len(body), api_of(ApiKey.METADATA, 12))) == 1
        work.append(body.cut_bytes)
        assert body.cut_bytes < len(body)
    assert work[1] < 2.5 * work[0] + 1_000


def test_metadata_of_a_large_cluster_passes_while_names_are_learnt():
    """1,700 topics of 12 partitions give all their names and no fault, for a policy that reads topic names."""
    engine = make_engine([Recorder(needs=Need.HEAD)])
    body = large_cluster(12, 1_700, [(3, 3, 0), (3, 2, 1)], 12)
    wire = Wire(engine).client(f.request(f.METADATA, 12, 1, bytes(9), tagged=True))
    wire.broker(f.reply(1, bytes(body), tagged=True))
    assert not wire.session.ended
    assert wire.to_client == f.reply(1, bytes(body), tagged=True)
    assert len(engine.rewrites.topics) == 1_700
    assert engine.rewrites.names_unread == 0


def test_a_produce_reply_of_200_000_partitions_fits_the_budget():
    """A version that may name brokers is walked, and fits."""
    partition = pack(">ihqqq", 0, 0, 5, -1, 0) + b"\x01\x00\x00"
    body = b"\x02" + encode_compact(b"orders") + encode_compact_count(200_000) + partition * 200_000
    body = bytearray(body + b"\0" + bytes(4) + b"\0")
    rewrite = rewriter(api_of(ApiKey.PRODUCE, 12))
    assert rewrite is not None
    assert rewrite(body, 0, len(body), lambda *_: (b"proxy", 19092)) is None


def brokers(sizes: list[int], count: int) -> Counting:
    """Return a Metadata body of so many brokers, with hosts of these sizes in turn."""
    listed = b"".join(
        pack(">i", n) + encode_compact(b"h" * sizes[n % len(sizes)]) + pack(">i", 9092) + bytes(2)
        for n in range(count)
    )
    return Counting(bytes(4) + encode_compact_count(count) + listed + b"\0" + bytes(4) + b"\x01\0")


@pytest.mark.parametrize(
    "sizes",
    [[9], [9, 10], [9, 9, 10, 10], [9] * 3 + [10] * 2, [9] * 99 + [10], list(range(1, 60))],
    ids=["alike", "alternating", "pairs", "threes", "hundreds", "many"],
)
def test_the_work_for_brokers_of_changing_shape_is_linear(sizes):
    """Twice as many brokers take about twice the work, in any sequence of shapes."""
    work = []
    for count in (4_000, 8_000):
        body = brokers(sizes, count)
        new = rewriter(api_of(ApiKey.METADATA, 12))(
            body, 0, len(body), lambda n, *_: (b"p", n % 9 + 1)
        )
        assert new is not None
        assert new.count(b"\x02p") >= count
        work.append(body.cut_bytes)
    assert work[1] < 2.5 * work[0]
    assert work[1] < 15 * len(body)
