"""The count of record batches and records in a field, fed in any chunks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.record_batches import GZIP, batch
from wire.record_batches import BatchCounter, new_count


def counted(field: bytes, cuts=()) -> tuple[int, int]:
    """Return the batches and records of a field cut at these places."""
    counter, count = BatchCounter(), new_count(b"t")
    counter.begin(count)
    for start, end in pairwise(sorted({0, len(field), *cuts})):
        counter.feed(bytearray(b"\x00" + field[start:end] + b"stale"), 1, 1 + end - start)
    return count.batches, count.records


@given(sizes=st.lists(st.integers(1, 9), max_size=5), data=st.data())
def test_each_batch_and_its_records_are_counted_once(sizes, data):
    """Several batches, cut anywhere, each count once, with their count of records."""
    field = b"".join(batch(count) for count in sizes)
    cuts = data.draw(st.sets(st.integers(0, len(field)), max_size=10))

    assert counted(field, cuts) == (len(sizes), sum(sizes))


def test_chunks_of_one_byte_and_compressed_batches_are_counted():
    """No chunk is too small; the count is in the head, which is never compressed."""
    field = batch(3) + batch(5)

    assert counted(field, range(len(field))) == (2, 8)

    assert counted(batch(500, codec=GZIP)) == (1, 500)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_count_entries(magic):
    """In formats before magic 2 an entry counts as one record; a compressed entry hides its records."""
    field = batch(4, magic=magic, size_bytes=1)

    assert counted(field) == counted(field, range(len(field))) == (4, 4)
    assert counted(batch(4, magic=magic, codec=GZIP)) == (1, 1)


def test_a_batch_cut_in_its_head_is_not_counted():
    """The last batch of a fetch may be cut anywhere; one with its head counts as a whole batch."""
    field = batch(3) + batch(5)
    first = len(batch(3))

    assert counted(field[: first + 60]) == (1, 3)
    assert counted(field[: first + 61]) == (2, 8)

    counter, count = BatchCounter(), new_count(b"t")
    for field in (batch(3)[:70], batch(2)[:10], batch(4)):
        counter.begin(count)
        counter.feed(bytearray(field), 0, len(field))

    assert (count.batches, count.records) == (2, 7)


@given(st.binary(max_size=400), st.sets(st.integers(0, 400), max_size=8))
def test_any_bytes_are_counted_without_a_fault(field, cuts):
    """Any bytes neither raise nor stop the progress, and chunks make no difference."""
    cuts = {cut for cut in cuts if cut <= len(field)}

    assert counted(field, cuts) == counted(field)
