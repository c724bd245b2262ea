"""The back-test: which share of requests each rule throttles."""

import pytest
from pyspark.sql import SparkSession

from pipeline.recommend.backtest import backtest
from pipeline.recommend.needs import Question
from pipeline.recommend.rules import QuotaRule, RecordedNeed
from policies.quota.entity import DEFAULT_NAME, REQUEST_RATE, QuotaEntity
from tests.support.telemetry.usage_rows import START_MS, frame, usage_row

NEED = RecordedNeed("u", None, 1, 1, None, 1, 1, 1, 1, 1)


QUESTION = Question("user", (REQUEST_RATE,), "entity", 2.0, 0.01)


def rule(entity: QuotaEntity, fitted: float | None) -> QuotaRule:
    return QuotaRule(entity, REQUEST_RATE, 1.0, fitted, NEED, 1, "")


def test_a_rule_has_the_share_of_the_clients_that_it_is_for(spark: SparkSession) -> None:
    """By the policy's own precedence; unauthenticated clients are ANONYMOUS. A rule without a client has none."""
    rows = [
        usage_row(
            "entity",
            user=user,
            client_id=client_id,
            ts_ms=START_MS + second * 1000,
            requests=50,
            charged=50,
            connections=1,
        )
        for user, client_id in (("alice", "etl"), ("alice", "app"), ("bob", "app"), ("", "app"))
        for second in range(30)
    ]
    rules = [
        rule(QuotaEntity("alice", "etl"), 10),
        rule(QuotaEntity("alice"), 1000),
        rule(QuotaEntity(DEFAULT_NAME), 1000),
        rule(QuotaEntity("ANONYMOUS"), 10),
        rule(QuotaEntity("carol"), 10),
        rule(QuotaEntity("dave"), None),
    ]
    clients = frame(spark, "entity", rows)
    for enforcement in ("entity", "channel"):
        asked = QUESTION._replace(enforcement=enforcement)  # type: ignore[arg-type] # one of the two
        tried = backtest(clients, rules, asked)
        assert tried.keys() == {
            (QuotaEntity("alice", "etl"), REQUEST_RATE),
            (QuotaEntity("alice"), REQUEST_RATE),
            (QuotaEntity(DEFAULT_NAME), REQUEST_RATE),
            (QuotaEntity("ANONYMOUS"), REQUEST_RATE),
        }
        throttled = {entity for (entity, _), each in tried.items() if each.share > 0.05}
        assert throttled == {QuotaEntity("alice", "etl"), QuotaEntity("ANONYMOUS")}


def test_the_member_of_a_rule_that_it_throttles_most_is_told(spark: SparkSession) -> None:
    """Quiet members make the share of a default small, which is no help to the busy one."""
    rows = [
        usage_row(
            "entity",
            user=f"u{n}",
            client_id=f"c{second % 2}",
            ts_ms=START_MS + second * 1000,
            requests=n,
            charged=n,
            connections=1,
        )
        for n in (30, 19, 18, 17)
        for second in range(60)
    ]
    rules = [rule(QuotaEntity(DEFAULT_NAME), 20)]
    (tried,) = backtest(frame(spark, "entity", rows), rules, QUESTION).values()
    assert tried.member == "u30"
    assert tried.worst > 0.8
    assert tried.share == pytest.approx(tried.worst * 30 / 84, rel=0.3)


def test_without_fitted_rules_nothing_is_tried(spark: SparkSession) -> None:
    """No job is started."""
    clients = frame(spark, "entity", [])
    assert backtest(clients, [rule(QuotaEntity("a"), None)], QUESTION) == {}
