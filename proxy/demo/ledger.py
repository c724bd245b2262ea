"""Which records were acked, or consumed: producer, partition, sequence.

Rules:
- Every producer numbers its records 0, 1, 2, ... in each partition, so a ledger is a few runs.
- A sequence below one already seen is `repeated` if it was seen before, else `out_of_order`.
- Delivery is at least once: a repeat is told, a gap or a swap is a failure.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Run = tuple[int, int]
"""First and last sequence, both inclusive."""
Runs = list[tuple[str, int, list[Run]]]
"""Producer, partition, runs."""

_STAMP = struct.Struct(">QQ")


def stamp(sequence: int, produced_at_ns: int, size_bytes: int) -> bytes:
    """Return a record's value: its number, when it was made (monotonic), and padding."""
    return _STAMP.pack(sequence, produced_at_ns).ljust(size_bytes, b".")


def read_stamp(value: bytes) -> tuple[int, int]:
    """Return the sequence and the time of a value made by `stamp`."""
    sequence, produced_at_ns = _STAMP.unpack_from(value)
    return sequence, produced_at_ns


class Ledger:
    """One side's book of records."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], list[list[int]]] = {}
        self.count = 0
        self.out_of_order = 0
        self.repeated = 0

    def add(self, producer: str, partition: int, sequence: int) -> None:
        """Enter one record, in the order it was seen."""
        runs = self._runs.setdefault((producer, partition), [])
        if runs and sequence == runs[-1][1] + 1:
            runs[-1][1] = sequence
        elif not runs or sequence > runs[-1][1]:
            runs.append([sequence, sequence])
        else:
            place = bisect_right(runs, sequence, key=lambda run: run[0]) - 1
            if place >= 0 and sequence <= runs[place][1]:
                self.repeated += 1
                return
            runs.insert(place + 1, [sequence, sequence])
            self.out_of_order += 1
        self.count += 1

    def runs(self) -> Runs:
        """Return the book in a form that can be sent."""
        return [
            (producer, partition, [(first, last) for first, last in runs])
            for (producer, partition), runs in self._runs.items()
        ]


def union(books: Iterable[Runs]) -> dict[tuple[str, int], list[Run]]:
    """Join books into one: sorted runs, without overlap, neighbours joined."""
    joined: dict[tuple[str, int], list[Run]] = {}
    for book in books:
        for producer, partition, runs in book:
            joined.setdefault((producer, partition), []).extend(runs)
    return {key: _merge(sorted(runs)) for key, runs in joined.items()}


def total(book: dict[tuple[str, int], list[Run]]) -> int:
    """Count the records of a joined book."""
    return sum(last - first + 1 for runs in book.values() for first, last in runs)


def missing(
    wanted: dict[tuple[str, int], list[Run]], found: dict[tuple[str, int], list[Run]]
) -> dict[tuple[str, int], int]:
    """Count what `found` lacks of `wanted`, by producer and partition; nothing lacking is {}."""
    lacking = {
        key: sum(_uncovered(run, found.get(key, [])) for run in runs)
        for key, runs in wanted.items()
    }
    return {key: count for key, count in lacking.items() if count}


def _merge(runs: list[Run]) -> list[Run]:
    merged: list[Run] = []
    for first, last in runs:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _uncovered(run: Run, found: list[Run]) -> int:
    first, last = run
    covered = sum(max(0, min(last, right) - max(first, left) + 1) for left, right in found)
    return last - first + 1 - covered
