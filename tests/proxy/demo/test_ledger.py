"""Ledger: losses, swaps and repeats are told apart, by an oracle of plain sets and lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.ledger import Ledger, missing, read_stamp, stamp, total, union

SEQUENCES = st.lists(st.integers(0, 30), max_size=60)


def book(sequences: list[int], producer: str = "p", partition: int = 0) -> Ledger:
    """Return a ledger of these, in this order."""
    ledger = Ledger()
    for sequence in sequences:
        ledger.add(producer, partition, sequence)
    return ledger


@given(SEQUENCES)
def test_a_ledger_counts_like_a_set_and_a_highest_number(sequences: list[int]) -> None:
    """Count, repeats and swaps are those of an oracle that remembers everything."""
    seen: set[int] = set()
    repeated = out_of_order = 0
    for sequence in sequences:
        repeated += sequence in seen
        out_of_order += sequence not in seen and bool(seen) and sequence < max(seen)
        seen.add(sequence)

    ledger = book(sequences)

    assert (ledger.count, ledger.repeated, ledger.out_of_order) == (
        len(seen),
        repeated,
        out_of_order,
    )
    told = {s for _, _, runs in ledger.runs() for a, b in runs for s in range(a, b + 1)}
    assert told == seen


@given(SEQUENCES, SEQUENCES, SEQUENCES)
def test_missing_is_the_difference_of_sets(
    wanted: list[int], left: list[int], right: list[int]
) -> None:
    """What two readers together lack of a producer's book is counted exactly."""
    books = union([book(left).runs(), book(right).runs()])

    lacking = missing(union([book(wanted).runs()]), books)

    assert sum(lacking.values()) == len(set(wanted) - set(left) - set(right))
    assert total(books) == len(set(left) | set(right))


def test_producers_and_partitions_are_kept_apart() -> None:
    """The same sequence of another producer or partition does not make up for a lost one."""
    wanted = union([book([0, 1], "a", 0).runs()])

    assert missing(wanted, union([book([0, 1], "b", 0).runs()])) == {("a", 0): 2}
    assert missing(wanted, union([book([0, 1], "a", 1).runs()])) == {("a", 0): 2}
    assert missing(wanted, union([book([0, 1], "a", 0).runs()])) == {}


def test_a_stamp_is_read_back_from_its_padding() -> None:
    """A record's value carries sequence and time whatever its size."""
    assert read_stamp(stamp(7, 123_456_789, 100)) == (7, 123_456_789)
    assert len(stamp(7, 1, 100)) == 100
