"""Predicts how much recommended rules would throttle, by a closed loop over rows that they were not fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import functions as sf

from pipeline.whatif.jobs import whatif
from policies.api import ANONYMOUS
from policies.quota.config import QuotaLine
from policies.quota.entity import QuotaEntity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from pipeline.recommend.needs import Question
    from pipeline.recommend.rules import QuotaRule

_BY = ("limit", "user", "client_id")
_SCHEMA = (
    "limit string, user string, client_id string, member string, requests double, throttled double"
)


class TriedRule(NamedTuple):
    """What a rule throttled in the back-test."""

    share: float
    """Of the requests of all that it is for."""
    worst: float
    """Of the requests of the one of them that it throttles most."""
    member: str
    """Who that is."""


Tried: TypeAlias = "dict[tuple[QuotaEntity, str], TriedRule]"
"""By the entity of the rule and its kind of limit."""


def backtest(clients: DataFrame, rules: Sequence[QuotaRule], question: Question) -> Tried:
    """Return what the rules throttle whose entity was there when they were fitted.

    `clients` are rows of the family `entity`. A rule without a client in them is left out.
    """
    limits: dict[QuotaEntity, dict[str, float]] = {}
    for rule in rules:
        if rule.fitted is not None:
            limits.setdefault(rule.entity, {})[rule.key] = rule.fitted
    if not limits:
        return {}
    lines = [QuotaLine(user=e.user, client_id=e.client_id, **each) for e, each in limits.items()]
    candidate = question.candidate(lines)
    named = {"user": ("user",), "client_id": ("client_id",), "both": ("user", "client_id")}
    names = named[question.level]

    def by_rule(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quotas = candidate.quotas()  # made here: a copy that was pickled finds no names
        sums: dict[tuple[str, str | None, str | None, str], list[float]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                key = row["limit_key"]
                resolved = quotas.resolve(key, row["user"], row["client_id"])
                if resolved is not None:
                    member = " and ".join(row[name] for name in names)
                    rule = (key, resolved.entity.user, resolved.entity.client_id, member)
                    found = sums.setdefault(rule, [0.0, 0.0])
                    found[0] += row["requests"]
                    found[1] += row["requests"] * row["throttled_share"]
        made = [(*place, *found) for place, found in sums.items()]
        columns = [*_BY, "member", "requests", "throttled"]
        types = [pa.string()] * 4 + [pa.float64()] * 2
        yield pa.RecordBatch.from_pydict(
            {name: [row[n] for row in made] for n, name in enumerate(columns)},
            pa.schema(zip(columns, types, strict=True)),
        )

    user = sf.when(sf.coalesce("user", sf.lit("")) == "", ANONYMOUS).otherwise(sf.col("user"))
    predicted = whatif(clients.withColumn("user", user), candidate)
    used = predicted.select("limit_key", "user", "client_id", "requests", "throttled_share")
    members = used.mapInArrow(by_rule, _SCHEMA).groupBy(*_BY, "member")
    sums = members.agg(sf.sum("requests").alias("requests"), sf.sum("throttled").alias("throttled"))
    share = sf.col("throttled") / sf.col("requests")
    tried = (
        sums.where("requests > 0")
        .groupBy(*_BY)
        .agg(
            sf.sum("throttled") / sf.sum("requests"),
            sf.max(share),
            sf.max_by("member", sf.struct(share, "member")),
        )
    )
    return {
        (QuotaEntity(user, client_id), key): TriedRule(min(all_, 1.0), min(worst, 1.0), member)
        for key, user, client_id, all_, worst, member in tried.collect()
    }
