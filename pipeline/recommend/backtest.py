"""Predicts how much recommended rules would throttle, by a closed loop over rows that they were not fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import functions as sf

from pipeline.recommend.packed import COLUMNS
from pipeline.whatif.jobs import whatif_packed
from pipeline.whatif.predict import Candidate
from policies.api import ANONYMOUS
from policies.quota.config import QuotaLine
from policies.quota.entity import QuotaEntity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from pyspark.sql import DataFrame

    from pipeline.recommend.rules import QuotaRule

Shares: TypeAlias = "dict[tuple[QuotaEntity, str], float]"
"""The share of requests that the rule for an entity and a kind of limit throttles."""
_SCHEMA = "limit string, user string, client_id string, requests double, throttled double"


def backtest(
    clients: DataFrame,
    rules: Sequence[QuotaRule],
    enforcement: Literal["entity", "channel"],
) -> Shares:
    """Return the predicted shares for rules whose entity was there when they were fitted.

    `clients` are packed with COLUMNS. A rule without a client has no share.
    """
    limits: dict[QuotaEntity, dict[str, float]] = {}
    for rule in rules:
        if rule.fitted is not None:
            limits.setdefault(rule.entity, {})[rule.key] = rule.fitted
    if not limits:
        return {}
    lines = [QuotaLine(user=e.user, client_id=e.client_id, **each) for e, each in limits.items()]
    candidate = Candidate(lines, enforcement)

    def by_rule(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quotas = candidate.quotas()  # made here: a copy that was pickled finds no names
        sums: dict[tuple[str, str | None, str | None], list[float]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                key = row["limit_key"]
                resolved = quotas.resolve(key, row["user"], row["client_id"])
                if resolved is not None:
                    place = (key, resolved.entity.user, resolved.entity.client_id)
                    found = sums.setdefault(place, [0.0, 0.0])
                    found[0] += row["requests"]
                    found[1] += row["requests"] * row["throttled_share"]
        made = [(*place, *found) for place, found in sums.items()]
        names = ("limit", "user", "client_id", "requests", "throttled")
        columns = {name: [row[n] for row in made] for n, name in enumerate(names)}
        types = [pa.string()] * 3 + [pa.float64()] * 2
        yield pa.RecordBatch.from_pydict(columns, pa.schema(zip(names, types, strict=True)))

    user = sf.when(sf.col("user") == "", ANONYMOUS).otherwise(sf.col("user"))
    predicted = whatif_packed(clients.withColumn("user", user), COLUMNS, candidate)
    used = predicted.select("limit_key", "user", "client_id", "requests", "throttled_share")
    sums = used.mapInArrow(by_rule, _SCHEMA).groupBy("limit", "user", "client_id").sum()
    return {
        (QuotaEntity(row[1], row[2]), row[0]): min(row[4] / row[3], 1.0)
        for row in sums.collect()
        if row[3] > 0
    }
