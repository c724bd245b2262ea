"""The job `recommend`: from the rows of the family `entity` to a quota file.

Rules:
- Only the largest needs come to the driver.
- Rules are chosen from all of the time. Their back-test uses limits from the first FIT_SHARE of it and simulates the
  rest, so it says how well the past predicts the future, not how well the rules repeat it.
- Rows of many clients have the names `(other)`. No rule can name them, nor those that the usage log has cut, nor the
  name `<default>`, which any client may choose.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.recommend.backtest import backtest
from pipeline.recommend.needs import ALL, BUSIEST, REST, Question, needs
from pipeline.recommend.rules import Measured, QuotaRule, RecordedNeed, Sizing, choose
from pipeline.whatif.client_rows import packed_clients
from policies.api import ANONYMOUS
from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    DEFAULT_NAME,
    MAX_NAME_CHARS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
    entity_text,
)
from policies.quota.quota_file import QuotaFile, QuotaFileLine
from wire.apis import RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, Row, SparkSession

    from pipeline.recommend.backtest import Tried
    from pipeline.recommend.needs import Level

OTHER: Final = "(other)"
FIT_SHARE: Final = 0.7
_SHOWN: Final = ("mean", "max", "seconds", "instances", "skew")
_DIGITS: Final = 4
_NAMES: Final = ("user", "client_id")


class Wishes(NamedTuple):
    """The options of the job."""

    level: Literal["auto"] | Level = "auto"
    limits: tuple[str, ...] = (REQUEST_RATE, PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
    target: float = 0.01
    """The share of requests that a limit may throttle."""
    sizing: Sizing = Sizing()
    enforcement: Literal["entity", "channel"] | None = None
    """None: that of the rows."""
    burst_seconds: float = 2.0
    tests: bool = True
    """Whether the rules are back-tested."""


class Recommendation(NamedTuple):
    """The rules and what they come from."""

    rules: list[QuotaRule]
    target: float
    tried: Tried
    """What each rule throttles in the back-test."""
    source: dict[str, object]
    notes: list[str]
    """Reasons for which the result is less certain."""

    def file(self, now: datetime) -> QuotaFile:
        """Return the quota file."""
        lines: dict[QuotaEntity, dict[str, float]] = {}
        evidence: dict[QuotaEntity, dict[str, object]] = {}
        for rule in self.rules:
            lines.setdefault(rule.entity, {})[rule.key] = rule.limit
            evidence.setdefault(rule.entity, {})[rule.key] = self._evidence(rule)
        quotas = tuple(
            QuotaFileLine(user=e.user, client_id=e.client_id, evidence=evidence[e], **limits)
            for e, limits in lines.items()
        )
        return QuotaFile(generated_at=now, source=self.source, quotas=quotas)

    def above_target(self, rule: QuotaRule) -> bool:
        """Return whether the back-test throttled more than the target, of one that the rule is for."""
        tried = self.tried.get((rule.entity, rule.key))
        return tried is not None and tried.worst > self.target

    def _evidence(self, rule: QuotaRule) -> dict[str, object]:
        found: dict[str, object] = {"need": _rounded(rule.need.value)}
        found |= {name: _rounded(getattr(rule.need, name)) for name in _SHOWN}
        tried = self.tried.get((rule.entity, rule.key))
        if rule.covers > 1:
            found["covers"] = rule.covers
        if tried is not None:
            found["predicted_throttled_share"] = _rounded(tried.share)
            if rule.covers > 1:
                found["largest_share_of_one"] = _rounded(tried.worst)
            found["backtest_limit"] = int(rule.fitted or 0)
            if self.above_target(rule):
                found["above_target"] = True
        return found


def recommend(spark: SparkSession, uri: str, wishes: Wishes) -> Recommendation:
    """Return quotas for the clients whose rows are in the tables at `uri`. Raises PipelineError if there are none."""
    entity = tables.read(spark, uri, "entity")
    found = _scope(entity)
    if not found["users"] + found["client_ids"]:
        raise PipelineError(
            f"{tables.table_uri(uri, 'entity')} has no client with a name of its own"
        )
    level: Level = wishes.level if wishes.level != "auto" else _level(found["users"])
    if level == "client_id" and not found["client_ids"]:
        raise PipelineError("no client has a client id, expected --level user")
    first_s, last_s = found["first_ms"] // 1000, found["last_ms"] // 1000
    fit_until_s = int(first_s + FIT_SHARE * (last_s + 1 - first_s))
    question = Question(
        level,
        wishes.limits,
        wishes.enforcement or _in_force(found),
        wishes.burst_seconds,
        wishes.target,
        fit_until_s if wishes.tests else None,
    )
    api = tables.maybe_read(spark, uri, "api") if wishes.limits != (REQUEST_RATE,) else None
    all_needs = needs_of_clients(entity, api, question).persist()
    try:
        rules = rules_from(all_needs, question, wishes.sizing)
    finally:
        all_needs.unpersist()
    tried: Tried = {}
    if wishes.tests:
        later = _of_names(tables.TimeRange(fit_until_s * 1000).of(entity), level)
        tried = backtest(later, rules, question)
    source = {
        "tables": uri,
        "from": _time(first_s),
        "until": _time(last_s + 1),
        "client_seconds": found["seconds"],
        "level": level,
        "enforcement": question.enforcement,
        "target": wishes.target,
        "headroom": wishes.sizing.headroom,
    }
    if question.enforcement == "entity":
        source["burst_seconds"] = wishes.burst_seconds
    if wishes.tests:
        source["backtest_from"] = _time(fit_until_s)
    made = Recommendation(rules, wishes.target, tried, source, [])
    made.notes.extend(_notes(spark, uri, found, made))
    return made


def needs_of_clients(entity: DataFrame, api: DataFrame | None, question: Question) -> DataFrame:
    """Return the needs (`pipeline.recommend.needs.SCHEMA`) of all names that a rule can have.

    `api` are the rows of that family: they say which clients produce and fetch. Without them each may have done both.
    """
    spark = entity.sparkSession
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    parts = max(2 * spark.sparkContext.defaultParallelism, shuffled)
    packed = packed_clients(_of_names(entity, question.level), question.columns())
    if api is None:
        packed = packed.withColumns({"produces": sf.lit(1), "fetches": sf.lit(1)})
    else:
        uses = api.groupBy(*_NAMES).agg(
            sf.max(sf.col("api_key").isin(*RECORDS_IN_REQUESTS).cast("int")).alias("produces"),
            sf.max(sf.col("api_key").isin(*RECORDS_IN_REPLIES).cast("int")).alias("fetches"),
        )
        packed = packed.join(uses, list(_NAMES), "left").na.fill(0, ["produces", "fetches"])
    return needs(packed, question, parts)


def enforcement_in_force(entity: DataFrame) -> Literal["entity", "channel"]:
    """Return the enforcement under which most of the rows were recorded; without any it is `entity`, the default."""
    found = entity.agg(*_enforcements()).first()
    assert found is not None  # noqa: S101 - an aggregation of all rows has one row
    return _in_force(found)


def _enforcements() -> Iterator[Column]:
    return (
        sf.count_if(sf.col("enforcement") == each).alias(each) for each in ("channel", "entity")
    )


def _in_force(scope: Row) -> Literal["entity", "channel"]:
    return "channel" if scope["channel"] > scope["entity"] else "entity"


def _named() -> Column:
    """Return whether a rule can name the client of a row."""
    return reduce(
        and_,
        (
            ~sf.col(name).isin(OTHER, DEFAULT_NAME) & (sf.length(name) < MAX_NAME_CHARS)
            for name in _NAMES
        ),
    )


def _of_names(entity: DataFrame, level: Level) -> DataFrame:
    named = entity.where(_named())
    return named.where(sf.col("client_id") != "") if level == "client_id" else named


def _scope(entity: DataFrame) -> Row:
    charged, named = sf.col("charged"), _named()
    # Under `entity` a client is muted for an interval after each request, also if it would have been idle then.
    idle_ms = sf.when(sf.col("enforcement") == "entity", charged * 1000 / sf.col("quota_rate"))
    found = entity.agg(
        sf.count("*").alias("seconds"),
        sf.count_if(sf.col("blocked_ms") > sf.coalesce(idle_ms, sf.lit(0))).alias("blocked"),
        *_enforcements(),
        sf.min("ts_ms").alias("first_ms"),
        sf.max("ts_ms").alias("last_ms"),
        sf.sum(charged).alias("requests"),
        sf.sum(sf.when(named, 0).otherwise(charged)).alias("unnamed"),
        sf.count_if(named & ~sf.col("user").isin("", ANONYMOUS)).alias("users"),
        sf.count_if(named & (sf.col("client_id") != "")).alias("client_ids"),
    ).first()
    assert found is not None  # noqa: S101 - an aggregation of all rows has one row
    return found


def _level(users: int) -> Level:
    return "user" if users else "client_id"


def rules_from(all_needs: DataFrame, question: Question, sizing: Sizing) -> list[QuotaRule]:
    """Return the rules for the needs of all names, kind by kind."""
    measured = _measured(all_needs, question.limits, sizing)
    return [
        rule
        for key in question.limits
        for rule in choose(key, measured[key], sizing, question.level)
    ]


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


def _notes(spark: SparkSession, uri: str, found: Row, made: Recommendation) -> Iterator[str]:
    """Yield what makes the result less certain."""
    for rule in made.rules:
        tried = made.tried.get((rule.entity, rule.key))
        if tried is not None and made.above_target(rule):
            whose = f" of the requests of {tried.member}" if rule.covers > 1 else ""
            yield (
                f"{entity_text(rule.entity)}, {rule.key}: fitted to the first {FIT_SHARE:.0%} of the time it throttles "
                f"{tried.worst:.1%}{whose} in the rest, the target is {made.target:.4g}: the need grows"
            )
    if found["unnamed"]:
        yield (
            f"{found['unnamed'] / found['requests']:.1%} of the requests are of clients without a name of their own "
            "in the usage log; no rule is made for their needs"
        )
    if found["channel"] and found["entity"]:
        yield f"the rows have both enforcements; the limits are for {made.source['enforcement']}"
    lost = tables.read_missing_rows(spark, uri, ["entity"]).lost
    if lost:
        yield f"{lost:,} rows of the family entity were lost: real needs may be larger"
    if found["blocked"]:
        yield (
            f"throttles took time in {found['blocked'] / found['seconds']:.1%} of the seconds of clients when this "
            "was recorded; their needs are estimates, so recommend again after a while under the new quotas"
        )


def _rounded(value: float) -> float:
    """Return the value with _DIGITS significant digits."""
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def _time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
