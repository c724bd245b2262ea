"""The back-test: which share of requests each rule throttles."""

from pyspark.sql import SparkSession

from pipeline.recommend.backtest import backtest
from pipeline.recommend.packed import COLUMNS
from pipeline.recommend.rules import QuotaRule, RecordedNeed
from pipeline.whatif.client_rows import packed_clients
from policies.quota.entity import DEFAULT_NAME, REQUEST_RATE, QuotaEntity
from tests.support.telemetry.usage_rows import START_MS, frame, usage_row

NEED = RecordedNeed("u", None, 1, 1, None, 1, 1, 1, 1, 1, 1, 1)


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
    clients = packed_clients(frame(spark, "entity", rows), COLUMNS)
    for enforcement in ("entity", "channel"):
        shares = backtest(clients, rules, enforcement)  # type: ignore[arg-type] # one of the two
        assert shares.keys() == {
            (QuotaEntity("alice", "etl"), REQUEST_RATE),
            (QuotaEntity("alice"), REQUEST_RATE),
            (QuotaEntity(DEFAULT_NAME), REQUEST_RATE),
            (QuotaEntity("ANONYMOUS"), REQUEST_RATE),
        }
        throttled = {entity for (entity, _), share in shares.items() if share > 0.05}
        assert throttled == {QuotaEntity("alice", "etl"), QuotaEntity("ANONYMOUS")}


def test_without_fitted_rules_nothing_is_tried(spark: SparkSession) -> None:
    """No job is started."""
    clients = packed_clients(frame(spark, "entity", []), COLUMNS)
    assert backtest(clients, [rule(QuotaEntity("a"), None)], "entity") == {}
