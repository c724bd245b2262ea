"""The curve of a candidate: what happens to all clients together if its limits are larger or smaller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, isfinite, log
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pipeline.whatif.delays import percentile_of
from pipeline.whatif.flags import UNENFORCEABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_STEPS: Final = 7
MAX_STEPS: Final = 100


@dataclass(frozen=True)
class SweepPoint:
    """The effect of a candidate on all its clients if its limits of one kind are multiplied by `factor`."""

    limit_key: str
    factor: float
    clients: int
    throttled_clients: int
    unenforceable_clients: int
    accepted_share: float
    """Of what the clients want to send."""
    throttled_share: float
    """Of the requests that pass."""
    delay_p50_ms: float
    delay_p99_ms: float

    def as_json(self) -> dict[str, object]:
        """Return all figures."""
        return asdict(self)


def factors_of(text: str) -> list[float]:
    """Return the factors of `LOW..HIGH[:STEPS]`, evenly spaced on a logarithmic scale. Raises ValueError."""
    span, _, steps_text = text.partition(":")
    low_text, dots, high_text = span.partition("..")
    try:
        low, high = float(low_text), float(high_text)
        steps = int(steps_text) if steps_text else DEFAULT_STEPS
    except ValueError:
        dots = ""
    if not dots:
        raise ValueError(f"found {text!r}, expected LOW..HIGH[:STEPS], such as 0.5..2 or 0.5..2:9")
    if not (0 < low < high and isfinite(high)):
        raise ValueError(f"found {text!r}, expected 0 < LOW < HIGH")
    if not 2 <= steps <= MAX_STEPS:
        raise ValueError(f"found {steps} steps, expected 2 to {MAX_STEPS}")
    width = log(high / low)
    return [float(f"{low * exp(width * n / (steps - 1)):.6g}") for n in range(steps)]


def curve(results: DataFrame) -> list[SweepPoint]:
    """Return the points of all factors, by kind of limit and factor."""
    by = ("limit_key", "factor")
    sums = (
        results.where("limit is not null")
        .groupBy(*by)
        .agg(
            F.count("*").alias("clients"),
            F.count_if(F.col("throttled_share") > 0).alias("throttled_clients"),
            F.count_if(F.col("flag") == UNENFORCEABLE).alias("unenforceable_clients"),
            F.sum(F.col("wanted_per_s") * F.col("seconds")).alias("wanted"),
            F.sum(F.col("accepted_per_s") * F.col("seconds")).alias("accepted"),
            F.sum("requests").alias("requests"),
            F.sum(F.col("throttled_share") * F.col("requests")).alias("throttled"),
        )
        .orderBy(*by)
    )
    counts = (
        results.where("limit is not null")
        .select(*by, F.explode(F.arrays_zip("delay_i", "delay_n")).alias("bin"))
        .groupBy(*by, F.col("bin.delay_i").alias("i"))
        .agg(F.sum("bin.delay_n").alias("n"))
    )
    delays: dict[tuple[str, float], dict[int, float]] = {}
    for row in counts.toArrow().to_pylist():
        delays.setdefault((row["limit_key"], row["factor"]), {})[row["i"]] = row["n"]
    points = []
    for row in sums.toArrow().to_pylist():
        of_point = delays.get((row["limit_key"], row["factor"]), {})
        requests = row["requests"]
        points.append(
            SweepPoint(
                row["limit_key"],
                row["factor"],
                row["clients"],
                row["throttled_clients"],
                row["unenforceable_clients"],
                row["accepted"] / row["wanted"] if row["wanted"] else 1.0,
                row["throttled"] / requests if requests else 0.0,
                *(percentile_of(of_point, share, requests) for share in (0.5, 0.99)),
            )
        )
    return points
