"""The heads of batches are read as Kafka's client wrote them, and hostile bodies end in a WireError."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.limits import Limits
from policies.testing import PolicyBench
from tests.support.messages.record_batches import GZIP, batch
from wire.batch_heads import MAX_BATCHES, BatchHead, read_batch_heads
from wire.errors import WireError
from wire.produce_topics import ProduceTopics

FIRST_MS = 1_700_000_000_000


def body(records: bytes, version: int = 9, topics: tuple[str, ...] = ("orders",)) -> bytes:
    """Return a Produce body with these records for partition 0 of each topic."""
    return (
        PolicyBench(Limits, {})
        .request("Produce", version, topics=topics, records=records)
        .sent_body
    )


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize(("codec", "name"), [(0, "none"), (GZIP, "gzip")])
def test_a_head_says_what_the_client_wrote(version: int, codec: int, name: str) -> None:
    """In every version of the request."""
    records = batch(7, codec=codec)
    (head,) = read_batch_heads(body(records, version), version)
    assert head == BatchHead(2, len(records), name, 7, FIRST_MS, FIRST_MS + 6, -1, head.topic, 0)


def test_each_partition_and_each_batch_has_its_head() -> None:
    """Kafka refuses a second batch of a partition; here it is seen."""
    heads = read_batch_heads(body(batch(1) + batch(2), topics=("a", "b")), 9)
    assert [head.records for head in heads] == [1, 2, 1, 2]


def test_an_old_format_is_named() -> None:
    """Its other fields lie elsewhere."""
    assert read_batch_heads(body(batch(1, magic=1)), 9) == [
        BatchHead(1, topic="orders", partition=0)
    ]


def test_a_flood_of_heads_is_refused() -> None:
    """A body of the largest size could hold millions, and each takes a microsecond."""
    empty = bytearray(batch(1)[:61])
    empty[8:12] = (49).to_bytes(4, "big")
    assert len(read_batch_heads(body(bytes(empty) * MAX_BATCHES), 9)) == MAX_BATCHES
    with pytest.raises(WireError, match="more than 1000 batches"):
        read_batch_heads(body(bytes(empty) * (MAX_BATCHES + 1)), 9)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_body_that_is_cut_or_goes_on_is_refused(version: int) -> None:
    """Wherever it ends early, also inside the records, and with a byte too many."""
    whole = body(batch(1), version)
    for bad in (*(whole[:size] for size in range(len(whole))), whole + b"\0"):
        with pytest.raises(WireError):
            read_batch_heads(bad, version)


@pytest.mark.parametrize(
    ("version", "topics"),
    [
        (3, b"\xff\xff\xff\xff"),
        (3, b"\0\0\0\1 \xff\xff \0\0\0\0"),
        (9, b"\0 \0"),
        (9, b"\2 \2t \0 \0\0"),
    ],
)
def test_a_null_array_or_name_is_refused(version: int, topics: bytes) -> None:
    """Kafka's request has none."""
    head = (b"\xff\xff" if version < 9 else b"\0") + b"\0\1" + bytes(4)
    with pytest.raises(WireError, match="count -1"):
        read_batch_heads(head + topics.replace(b" ", b""), version)


@pytest.mark.parametrize("version", [3, 9])
def test_a_topic_name_that_is_no_text_is_refused(version: int) -> None:
    """A policy that goes by names must not see another than the broker."""
    with pytest.raises(WireError, match="not valid UTF-8"):
        read_batch_heads(body(batch(1), version).replace(b"orders", b"order\xff"), version)


@given(
    st.sampled_from([3, 8, 9, 12, 13]),
    st.lists(st.integers(0, 3), max_size=4),
    st.integers(0, 60),
    st.data(),
)
def test_the_heads_are_those_that_a_walker_finds(
    version: int, counts: list[int], cut: int, data: st.DataObject
) -> None:
    """The walker of streamed bodies counts the same batches and records, and refuses the same bodies."""
    records = b"".join(batch(count + 1) for count in counts)
    whole = bytearray(body(records[: len(records) - cut] if cut < len(records) else b"", version))
    for _ in range(data.draw(st.integers(0, 2))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    walker = ProduceTopics(version)
    try:
        taken = walker.feed(whole, 0, len(whole))
        is_whole = taken == len(whole) and walker.done
    except WireError:
        is_whole = False
    try:
        heads = read_batch_heads(whole, version)
    except WireError:
        assert not is_whole
        return
    assert is_whole
    assert len(heads) == sum(count.batches for count in walker.per_topic)
    known = sum(max(head.records, 0) if head.magic == 2 else 1 for head in heads)
    if all(head.magic <= 2 for head in heads):
        assert known == sum(count.records for count in walker.per_topic)
