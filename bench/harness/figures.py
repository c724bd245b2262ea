"""Statistics of measured values: spread, quantile, median.

A spread is a median with the least and the greatest value; a table shows all three.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the least and the greatest of the values it comes from."""

    median: float
    least: float
    greatest: float

    def text(self, digits: int) -> str:
        """Return `median (least to greatest)`; without the bracket if all three read the same."""
        low, middle, high = (
            f"{value:,.{digits}f}" for value in (self.least, self.median, self.greatest)
        )
        return middle if low == high else f"{middle} ({low} to {high})"


def spread(values: Iterable[float]) -> Spread:
    """Return median, least and greatest.

    Raises:
        ValueError: there are no values.
    """
    known = sorted(values)
    if not known:
        raise ValueError("no values: a spread needs at least 1")
    return Spread(statistics.median(known), known[0], known[-1])


def maybe_spread(values: Iterable[float]) -> Spread | None:
    """Return the spread; None if there are no values."""
    known = list(values)
    return spread(known) if known else None


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value that `share` of all values do not exceed (nearest rank); infinite if there are none."""
    known = sorted(values)
    return known[max(math.ceil(share * len(known)), 1) - 1] if known else math.inf


def median(values: Iterable[float]) -> float:
    """Return the median; infinite if there are no values."""
    known = list(values)
    return statistics.median(known) if known else math.inf
