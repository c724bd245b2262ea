"""The job from tables to a quota file: on one set of made-up rows, and on tables without clients."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import PipelineError
from pipeline.recommend.packed import OTHER
from pipeline.recommend.recommendation import Recommendation, Wishes, recommend
from pipeline.recommend.rules import Sizing
from policies.quota.entity import DEFAULT_NAME, PRODUCER_BYTE_RATE, REQUEST_RATE, QuotaEntity
from policies.quota.quota_file import parse_quota_file, render_quota_file
from tests.support.telemetry.usage_rows import START_MS, Row, frame, numbered, usage_row

SECONDS = 200
LATE = 140
"""From here on the rules are tried."""


def used(user: str, client_id: str, second: int, requests: int, **columns: object) -> Row:
    return usage_row(
        "entity",
        user=user,
        client_id=client_id,
        ts_ms=START_MS + second * 1000,
        requests=requests,
        charged=requests,
        charged_bytes=requests * 1000,
        response_bytes=requests * 100,
        connections=2,
        **columns,
    )


def write(spark: SparkSession, tables: Path, family: str, rows: list[Row]) -> None:
    """Write a table as `ingest` does."""
    at = sf.timestamp_millis("ts_ms")
    made = frame(spark, family, numbered(rows))
    dated = made.withColumns(
        {"dt": sf.date_format(at, "yyyy-MM-dd"), "hour": sf.date_format(at, "HH")}
    )
    dated.coalesce(1).write.partitionBy("dt", "hour").parquet(str(tables / family))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two instances: alice with a busy and a quiet client id, bob who sends more in the end, and quiet users."""
    folder = tmp_path_factory.mktemp("tables")
    rows = [used(OTHER, OTHER, second, 500) for second in range(0, SECONDS, 20)]
    for instance in ("pod-1", "pod-2"):
        for second in range(SECONDS):
            rows += [
                used("alice", "etl", second, 100, instance=instance),
                used("alice", "cron", second, 2, instance=instance),
                used("bob", "app", second, 120 if second >= LATE else 40, instance=instance),
                used(f"quiet-{second % 10}", "app", second, 3, instance=instance),
            ]
    write(spark, folder, "entity", rows)
    produces = {("alice", "etl"), ("bob", "app")}
    apis = [usage_row("api", user=u, client_id=c, api_key=0) for u, c in sorted(produces)]
    write(
        spark, folder, "api", [*apis, usage_row("api", user="alice", client_id="cron", api_key=3)]
    )
    return folder


@pytest.fixture(scope="module")
def found(spark: SparkSession, tables: Path) -> Recommendation:
    return recommend(spark, str(tables), Wishes())


def test_the_rules_are_those_of_the_busy_users_and_a_default(found: Recommendation) -> None:
    """Bytes are limited where a client produces; no client fetches. The busy client id of a user has its own rule."""
    limits = {(rule.entity, rule.key): rule.limit for rule in found.rules}
    everyone = QuotaEntity(DEFAULT_NAME)
    assert limits[QuotaEntity("alice", "etl"), REQUEST_RATE] == 116  # 1100 / 10.5 * 1.1
    assert limits[QuotaEntity("alice"), REQUEST_RATE] == 3
    assert limits[QuotaEntity("bob"), REQUEST_RATE] == 139
    assert limits[everyone, REQUEST_RATE] == 1
    bytes_of = {entity: limit for (entity, key), limit in limits.items() if key != REQUEST_RATE}
    assert bytes_of == {everyone: 138_286}
    assert (found.rules[-1].key, found.rules[-1].covers) == (PRODUCER_BYTE_RATE, 2)


def test_the_prediction_is_of_limits_that_did_not_see_what_they_are_tried_on(
    found: Recommendation,
) -> None:
    """Bob sends three times as much in the end, so the limit from before throttles him; alice is as before."""
    bob = found.shares[QuotaEntity("bob"), REQUEST_RATE]
    assert 0.5 < bob <= 1
    assert found.shares[QuotaEntity("alice", "etl"), REQUEST_RATE] < 0.05
    assert found.shares.keys() == {(rule.entity, rule.key) for rule in found.rules}
    (note,) = found.notes
    assert note.startswith("6.9% of the requests are of clients without a name of their own"), note


def test_the_file_has_the_evidence_and_can_be_read(found: Recommendation) -> None:
    """Limits of one entity are in one line."""
    now = datetime(2026, 11, 23, tzinfo=UTC)
    file = parse_quota_file(render_quota_file(found.file(now)))
    lines = {line.entity: line for line in file.quotas}
    assert len(lines) == len(file.quotas)
    bob = lines[QuotaEntity("bob")]
    assert bob.request_rate == 139
    evidence = bob.evidence[REQUEST_RATE]
    assert isinstance(evidence, dict)
    assert evidence["windows"] == 400
    assert evidence["instances"] == 2
    assert evidence["skew"] == 1
    assert evidence["max"] == pytest.approx(120 * 11 / 10.5, rel=1e-3)
    assert 0.5 < evidence["predicted_throttled_share"] <= 1
    assert evidence["backtest_limit"] == 47
    assert lines[QuotaEntity(DEFAULT_NAME)].producer_byte_rate == 138_286
    default = lines[QuotaEntity(DEFAULT_NAME)].evidence[REQUEST_RATE]
    assert isinstance(default, dict)
    assert default["covers"] == 10
    assert file.source["level"] == "user"
    assert (file.source["from"], file.source["until"]) == (
        "2025-11-21T00:00:00Z",
        "2025-11-21T00:03:20Z",
    )
    assert file.source["backtest_from"] == "2025-11-21T00:02:20Z"


def test_client_ids_are_limited_where_no_client_authenticates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Many of them need a rule each for the busy ones, and a default. The result is the same twice."""
    rows = [used("", f"busy-{n}", second, 300 - n) for n in range(2) for second in range(40)]
    rows += [used("", "", second, 999) for second in range(40)]
    rows += [used("", f"id-{n}", 5, 2) for n in range(100)]
    write(spark, tmp_path, "entity", rows)
    wishes = Wishes(limits=(REQUEST_RATE,), tests=False, sizing=Sizing(headroom=1))
    first, second = (recommend(spark, str(tmp_path), wishes) for _ in range(2))
    assert first == second
    assert {rule.entity: (rule.limit, rule.covers) for rule in first.rules} == {
        QuotaEntity(None, DEFAULT_NAME): (1, 100),
        QuotaEntity(None, "busy-0"): (315, 1),
        QuotaEntity(None, "busy-1"): (314, 1),
    }


def test_tables_without_named_clients_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """There is nothing to recommend."""
    write(spark, tmp_path, "entity", [used(OTHER, OTHER, 1, 5), used("", "", 1, 5)])
    with pytest.raises(PipelineError, match="no client with a name of its own"):
        recommend(spark, str(tmp_path), Wishes())
