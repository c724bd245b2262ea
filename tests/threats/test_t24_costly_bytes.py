"""T24: bytes that are dear to walk: tags, lists of alternating shape, empty elements.

Every step of a walk costs budget, and walkers take linear work. Work is counted: lines of Python for each byte of
frame, and bytes that a walker slices out to compare neighbours.
"""

import pytest

from policies.api import Need
from proxy.core.session.naming_exchange import MAX_WHOLE_ELEMENTS
from tests.fuzz import conversations
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.costly_frames import produce_of_tags
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.large_clusters import brokers, large_cluster
from tests.support.processes.measured import counted_work, tell
from wire.addresses import rewriter
from wire.apis import ApiKey
from wire.metadata import topic_names

LINES_PER_BYTE = 4
"""A line takes some 0.05 us: well below a microsecond for each byte."""
LINES_ANYWAY = 20_000
"""The row's 5 ms."""
LINES_PER_ELEMENT = 30
"""Of a Produce that a policy needs whole: it has MAX_WHOLE_ELEMENTS at most, so some 2 ms."""


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


@pytest.mark.parametrize("need", [Need.HEADER, Need.HEAD, Need.BODY, Need.TOPICS])
def test_8_000_partitions_of_sixty_tags_cost_little_for_each_byte(need: Need) -> None:
    """Of the request and of the reply made here, with any part that a policy asks to see."""
    request = produce_of_tags()
    wire = Wire(make_engine([Recorder(needs=need)]))
    with counted_work() as work:
        wire.client(request)
    # With its topics it is refused, in turns: its reply has an error for each partition.
    size_bytes = len(request) + len(wire.to_client)
    share = work.lines / size_bytes
    tell(
        "T24",
        f"Produce of {len(request):,} bytes, 8,000 partitions x 60 tags, {need.name}: {share:.2f} lines a byte",
    )
    assert work.lines <= LINES_PER_BYTE * size_bytes + LINES_ANYWAY


def test_20_000_brokers_of_changing_shape_cost_little_for_each_byte() -> None:
    """Each host has another length than its neighbours."""
    body = bytes(brokers(list(range(1, 60)), 20_000))
    wire = Wire().client(f.request(f.METADATA, 12, 1, bytes(9), tagged=True))
    with counted_work() as work:
        wire.broker(f.reply(1, body, tagged=True))
    assert not wire.session.ended
    share = work.lines / len(body)
    tell(
        "T24",
        f"Metadata of {len(body):,} bytes, 20,000 brokers of changing shape: {share:.2f} lines a byte",
    )
    assert work.lines <= LINES_PER_BYTE * len(body) + LINES_ANYWAY


@pytest.mark.parametrize("name", conversations.names())
def test_the_corpus_costs_little_for_each_byte(name: str) -> None:
    """The conversations that broke something once."""
    for conversation in conversations.read(name):
        wire = Wire(make_engine([Recorder(needs=Need.BODY)]))
        size = sum(len(line.data) for line in conversation)
        with counted_work() as work:
            for by_client, data in conversation:
                (wire.client if by_client else wire.broker)(data)
        read_whole = LINES_PER_ELEMENT * MAX_WHOLE_ELEMENTS
        assert work.lines <= LINES_PER_BYTE * size + LINES_ANYWAY + read_whole
