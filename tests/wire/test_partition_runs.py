"""Partitions of many topics are stepped over as one by one, whatever shapes follow each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import WireError
from wire.metadata import after_partitions
from wire.partition_runs import PartitionRuns
from wire.primitives import REPLY_ELEMENT_BUDGET, compact_count
from wire.varint import encode_uvarint

TAGS = (b"\0", b"\0", b"\0", b"\1\7\2ab")


def partition(replicas: int, in_sync: int, offline: int, tags: bytes) -> bytes:
    """Return one partition."""
    arrays = (
        encode_uvarint(count + 1) + bytes(4 * count) for count in (replicas, in_sync, offline)
    )
    return bytes(14) + b"".join(arrays) + tags


partitions = st.builds(
    partition,
    st.sampled_from([3, 3, 3, 1, 130]),
    st.sampled_from([3, 3, 2]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from(TAGS),
)
topics = st.lists(
    st.one_of(
        st.integers(0, 200).map(lambda count: [partition(3, 3, 0, b"\0")] * count),
        st.lists(partitions, max_size=5),
    ),
    max_size=8,
)


@given(topics, st.data())
def test_each_array_ends_where_its_last_partition_ends(
    arrays: list[list[bytes]], data: st.DataObject
) -> None:
    """Also where a byte has changed: then both readers say the same, or both refuse."""
    body = bytearray(b"".join(encode_uvarint(len(each) + 1) + b"".join(each) for each in arrays))
    if body and data.draw(st.booleans()):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    runs, pos = PartitionRuns(), 0
    for _ in arrays:
        try:
            count, at = compact_count(body, pos, len(body))
            stop, _ = after_partitions(body, at, len(body), count, REPLY_ELEMENT_BUDGET)
        except WireError:
            with pytest.raises((WireError, IndexError)):
                runs.after(body, pos, len(body))
            return
        assert runs.after(body, pos, len(body)) == stop
        pos = stop


def test_an_array_that_ends_too_early_is_malformed() -> None:
    """Although it begins as the one before it."""
    array = b"\3" + partition(3, 3, 0, b"\0") * 2
    runs = PartitionRuns()
    assert runs.after(array * 2, 0, 2 * len(array)) == len(array)
    for size in range(1, len(array)):
        with pytest.raises(WireError):
            runs.after(array + array[:size], len(array), len(array) + size)
