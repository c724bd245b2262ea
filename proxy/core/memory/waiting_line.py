"""A line of claims that wait for memory: the one that is expected to end first comes first.

Rules:
- A claim is placed once, at the time at which its request would be complete if it had memory now: what is missing of
  it, at the rate of what it has sent. So a small request passes a large one, and a fast one a slow one.
- That time does not move while the claim waits, and those of later claims do. So each claim is overtaken by those only
  that come before that time, and none waits for ever behind others that keep coming.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

ClaimT = TypeVar("ClaimT")


class PlaceInLine(NamedTuple, Generic[ClaimT]):
    """A claim's place: when its request is expected to end, and the bytes it waits for (0: their number is unknown)."""

    ends_ms: int
    number: int
    claim: ClaimT
    size_bytes: int


class WaitingLine(Generic[ClaimT]):
    """The claims that wait, by the time at which their requests are expected to end; equal ones by arrival.

    `places` is always the same dict, so that callers can ask cheaply whether a claim waits.
    """

    __slots__ = ("_heap", "_number", "places")

    def __init__(self) -> None:
        self.places: dict[ClaimT, PlaceInLine[ClaimT]] = {}
        self._heap: list[
            PlaceInLine[ClaimT]
        ] = []  # places that claims have left stay until they come first
        self._number = 0

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[ClaimT]:
        return iter(self.places)

    def add(self, claim: ClaimT, size_bytes: int, ends_ms: int) -> None:
        """Place a claim, or move it to another place."""
        self._number += 1
        place = self.places[claim] = PlaceInLine(ends_ms, self._number, claim, size_bytes)
        heappush(self._heap, place)
        if len(self._heap) > 2 * len(self.places) + 16:
            self._heap = list(self.places.values())
            heapify(self._heap)

    def discard(self, claim: ClaimT) -> None:
        """Remove a claim, if it waits here."""
        self.places.pop(claim, None)

    def first(self) -> PlaceInLine[ClaimT] | None:
        """Return the first place; None if no claim waits."""
        heap, places = self._heap, self.places
        while heap and places.get(heap[0].claim) is not heap[0]:
            heappop(heap)
        return heap[0] if heap else None

    def precedes(self, ends_ms: int) -> bool:
        """Return whether a claim of this line comes before one that is expected to end at `ends_ms`."""
        first = self.first()
        return first is not None and first.ends_ms <= ends_ms

    def move(self, claim: ClaimT, ends_ms: int) -> None:
        """Move a claim that waits here, because more is known of its rate; one that was placed ahead stays."""
        place = self.places[claim]
        if place.ends_ms > 0:
            self.add(claim, place.size_bytes, ends_ms)

    def put_first(self, claim: ClaimT) -> None:
        """Place a claim that waits here before all others."""
        self.add(claim, self.places[claim].size_bytes, 0)
