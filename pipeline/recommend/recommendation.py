"""The job `recommend`: from the rows of the family `entity` to a quota file.

- The demand of all clients is kept; the back-test reads its rows again. Only the largest needs come to the driver.
- Rules are chosen from all of the time. Their back-test uses limits from the first FIT_SHARE of it and simulates the
  rest, so it says how well the past predicts the future, not how well the rules repeat it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.ingest.sequences import gaps
from pipeline.recommend.backtest import backtest
from pipeline.recommend.needs import ALL, BUSIEST, REST, Question, needs
from pipeline.recommend.packed import COLUMNS, OTHER, packed, with_uses
from pipeline.recommend.rules import Measured, QuotaRule, RecordedNeed, Sizing, choose
from pipeline.tables import TimeRange
from pipeline.whatif.client_rows import packed_clients
from policies.api import ANONYMOUS
from policies.quota.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_RATE, QuotaEntity
from policies.quota.quota_file import QuotaFile, QuotaFileLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row, SparkSession

    from pipeline.recommend.backtest import Shares
    from pipeline.recommend.needs import Level

FIT_SHARE: Final = 0.7
_SHOWN: Final = ("p50", "p99", "p999", "max", "windows", "instances", "skew")
_DIGITS: Final = 4
_NAMES: Final = ("user", "client_id")


class Wishes(NamedTuple):
    """The options of the job."""

    level: Literal["auto"] | Level = "auto"
    limits: tuple[str, ...] = (REQUEST_RATE, PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
    percentile: float = 99.9
    sizing: Sizing = Sizing()
    enforcement: Literal["entity", "channel"] = "entity"
    """That of the back-test."""
    tests: bool = True
    """Whether the rules are back-tested."""


class Recommendation(NamedTuple):
    """The rules and what they come from."""

    rules: list[QuotaRule]
    shares: Shares
    """The share of requests that each rule is predicted to throttle."""
    source: dict[str, object]
    notes: list[str]
    """Reasons for which the result is less certain."""

    def file(self, now: datetime) -> QuotaFile:
        """Return the quota file."""
        lines: dict[QuotaEntity, dict[str, float]] = {}
        evidence: dict[QuotaEntity, dict[str, object]] = {}
        for rule in self.rules:
            lines.setdefault(rule.entity, {})[rule.key] = rule.limit
            evidence.setdefault(rule.entity, {})[rule.key] = _evidence(
                rule, self.shares.get((rule.entity, rule.key))
            )
        quotas = tuple(
            QuotaFileLine(user=e.user, client_id=e.client_id, evidence=evidence[e], **limits)
            for e, limits in lines.items()
        )
        return QuotaFile(generated_at=now, source=self.source, quotas=quotas)


def recommend(spark: SparkSession, uri: str, wishes: Wishes) -> Recommendation:
    """Return quotas for the clients whose rows are in the tables at `uri`. Raises PipelineError if there are none."""
    clients = tables.read(spark, uri, "entity")
    demand = packed(clients).persist()
    try:
        return _recommend(spark, uri, clients, demand, wishes)
    finally:
        demand.unpersist()


def _recommend(
    spark: SparkSession, uri: str, clients: DataFrame, demand: DataFrame, wishes: Wishes
) -> Recommendation:
    requests = sf.col("requests")
    found = demand.agg(
        sf.sum("seconds").alias("seconds"),
        sf.sum("blocked_seconds").alias("blocked"),
        sf.min("first_s").alias("first_s"),
        sf.max("last_s").alias("last_s"),
        sf.sum(requests).alias("requests"),
        sf.sum(sf.when(sf.col("user") == OTHER, requests).otherwise(0)).alias("unnamed"),
        sf.count_if(~sf.col("user").isin("", ANONYMOUS, OTHER)).alias("users"),
        sf.count_if(~sf.col("client_id").isin("", OTHER)).alias("client_ids"),
    ).first()
    if found is None or not found["users"] + found["client_ids"]:
        raise PipelineError(
            f"{tables.table_uri(uri, 'entity')} has no client with a name of its own"
        )
    demand = demand.where(sf.col("user") != OTHER)
    level: Level = wishes.level if wishes.level != "auto" else _level(found["users"])
    if level == "client_id":
        if not found["client_ids"]:
            raise PipelineError("no client has a client id, expected --level user")
        demand = demand.where(sf.col("client_id") != "")
    first_s, last_s = found["first_s"], found["last_s"]
    fit_until_s = int(first_s + FIT_SHARE * (last_s + 1 - first_s))
    question = Question(level, wishes.limits, wishes.percentile, fit_until_s)
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    parts = max(2 * spark.sparkContext.defaultParallelism, shuffled)
    has_bytes = len(wishes.limits) > 1
    api = tables.maybe_read(spark, uri, "api") if has_bytes else None
    all_needs = needs(with_uses(demand, api), question, parts).persist()
    try:
        measured = _measured(all_needs, wishes.limits, wishes.sizing)
    finally:
        all_needs.unpersist()
    rules = [
        rule for key in wishes.limits for rule in choose(key, measured[key], wishes.sizing, level)
    ]
    shares: Shares = {}
    if wishes.tests:
        later = packed_clients(TimeRange(fit_until_s * 1000).of(clients), COLUMNS)
        shares = backtest(later, rules, wishes.enforcement)
    source = {
        "tables": uri,
        "from": _time(first_s),
        "until": _time(last_s + 1),
        "client_seconds": found["seconds"],
        "level": level,
        "percentile": wishes.percentile,
        "headroom": wishes.sizing.headroom,
    }
    if wishes.tests:
        source |= {"enforcement": wishes.enforcement, "backtest_from": _time(fit_until_s)}
    return Recommendation(rules, shares, source, list(_notes(spark, uri, found)))


def _level(users: int) -> Level:
    return "user" if users else "client_id"


def _measured(all_needs: DataFrame, limits: tuple[str, ...], sizing: Sizing) -> dict[str, Measured]:
    """Return for each kind of limit the largest needs, and the sums over all; one job answers for all limits."""
    of_names = all_needs.where(sf.col("role") == ALL)
    floor = sf.coalesce(
        *(sf.when(sf.col("limit") == key, sf.lit(sizing.floor(key))) for key in limits)
    )
    needed = sf.ceil(sf.greatest(sf.col("value") * sizing.headroom, floor))
    sums = of_names.groupBy("limit").agg(sf.count("*"), sf.sum(needed)).collect()
    totals = {limit: (names, float(total or 0)) for limit, names, total in sums}
    columns = [sf.col(name) for name in RecordedNeed._fields]
    order = (sf.desc("value"), *_NAMES)
    ordered = (
        of_names.where(sf.col("limit") == key).orderBy(*order).limit(sizing.max_rules + 1)
        for key in limits
    )
    largest: dict[str, list[RecordedNeed]] = {key: [] for key in limits}
    for limit, *need in reduce(DataFrame.union, ordered).select("limit", *columns).collect():
        largest[limit].append(RecordedNeed(*need))
    users = {need.user for some in largest.values() for need in some if need.client_ids > 1}
    parts: dict[tuple[str, str], dict[str, RecordedNeed]] = {}
    if users:
        rows = all_needs.where((sf.col("role") != ALL) & sf.col("user").isin(users))
        for limit, role, *need in rows.select("limit", "role", *columns).collect():
            part = RecordedNeed(*need)
            parts.setdefault((limit, part.user or ""), {})[role] = part
    return {
        key: Measured(
            largest[key],
            *totals.get(key, (0, 0.0)),
            {
                user: (found[BUSIEST], found[REST])
                for (limit, user), found in parts.items()
                if limit == key and found.keys() == {BUSIEST, REST}
            },
        )
        for key in limits
    }


def _notes(spark: SparkSession, uri: str, found: Row) -> Iterator[str]:
    """Yield what makes the result less certain: unnamed clients, lost rows, and throttles while it was recorded."""
    if found["unnamed"]:
        yield (
            f"{found['unnamed'] / found['requests']:.1%} of the requests are of clients without a name of their own "
            "in the usage log; no rule is made for their needs"
        )
    sequences = tables.maybe_read(spark, uri, "sequences")
    if sequences is not None:
        lost = gaps(sequences).where(sf.col("family") == "entity").agg(sf.sum("lost")).first()
        if lost is not None and lost[0]:
            yield f"{lost[0]:,} rows of the family entity were lost: real needs may be larger"
    if found["blocked"]:
        yield (
            f"throttles took time in {found['blocked'] / found['seconds']:.1%} of the seconds of clients when this "
            "was recorded; their needs are estimates, so recommend again after a while under the new quotas"
        )


def _evidence(rule: QuotaRule, share: float | None) -> dict[str, object]:
    need = rule.need
    found: dict[str, object] = {name: _rounded(getattr(need, name)) for name in _SHOWN}
    if rule.covers > 1:
        found["covers"] = rule.covers
    if share is not None:
        found["predicted_throttled_share"] = _rounded(share)
        found["backtest_limit"] = int(rule.fitted or 0)
    return found


def _rounded(value: float) -> float:
    """Return the value with _DIGITS significant digits."""
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def _time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
