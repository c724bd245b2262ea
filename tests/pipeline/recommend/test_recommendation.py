"""The job from tables to a quota file: on one set of made-up rows, and on tables without clients."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.recommend.recommendation import OTHER, Recommendation, Wishes, recommend
from pipeline.recommend.rules import Sizing
from pipeline.tables import read
from pipeline.whatif.jobs import whatif
from pipeline.whatif.predict import Candidate
from policies.quota.config import QuotaLine
from policies.quota.entity import DEFAULT_NAME, PRODUCER_BYTE_RATE, REQUEST_RATE, QuotaEntity
from policies.quota.quota_file import parse_quota_file, render_quota_file
from tests.support.pipeline.delta_tables import write_rows
from tests.support.telemetry.usage_rows import START_MS, Row, usage_row

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
    write_rows(spark, folder, "entity", rows)
    produces = {("alice", "etl"), ("bob", "app")}
    apis = [usage_row("api", user=u, client_id=c, api_key=0) for u, c in sorted(produces)]
    apis.append(usage_row("api", user="alice", client_id="cron", api_key=3))
    write_rows(spark, folder, "api", apis)
    return folder


@pytest.fixture(scope="module")
def found(spark: SparkSession, tables: Path) -> Recommendation:
    return recommend(spark, str(tables), Wishes())


def test_the_rules_are_those_of_the_busy_users_and_a_default(found: Recommendation) -> None:
    """Bytes are limited where a client produces; no client fetches. The busy client id of a user has its own rule."""
    limits = {(rule.entity, rule.key): rule.limit for rule in found.rules}
    everyone = QuotaEntity(DEFAULT_NAME)
    assert limits[QuotaEntity("alice", "etl"), REQUEST_RATE] in (109, 110)  # 99 and a tenth
    assert limits[QuotaEntity("alice"), REQUEST_RATE] == 3
    assert limits[QuotaEntity("bob"), REQUEST_RATE] in (128, 129)  # 116 for a minute of 120
    assert limits[everyone, REQUEST_RATE] == 2  # a batch of three
    bytes_of = {entity: limit for (entity, key), limit in limits.items() if key != REQUEST_RATE}
    assert bytes_of == {everyone: pytest.approx(128_000, rel=0.01)}
    assert (found.rules[-1].key, found.rules[-1].covers) == (PRODUCER_BYTE_RATE, 2)


def test_the_prediction_is_of_limits_that_did_not_see_what_they_are_tried_on(
    found: Recommendation,
) -> None:
    """Bob sends three times as much in the end, so limits from before throttle him, and the notes say so."""
    bob = found.tried[QuotaEntity("bob"), REQUEST_RATE]
    assert 0.5 < bob.share <= 1
    assert found.tried[QuotaEntity("alice", "etl"), REQUEST_RATE].share == 0
    assert found.tried.keys() == {(rule.entity, rule.key) for rule in found.rules}
    default = found.tried[QuotaEntity(DEFAULT_NAME), PRODUCER_BYTE_RATE]
    assert (default.member, default.worst > default.share) == ("bob", True)
    assert [rule.entity for rule in found.rules if found.above_target(rule)] == [
        QuotaEntity("bob"),
        QuotaEntity(DEFAULT_NAME),
    ]
    own, of_default, unnamed = found.notes
    assert own.startswith("user: bob, request_rate: fitted to the first 70%"), own
    assert "% of the requests of bob in the rest, the target is 0.01" in of_default
    assert unnamed.startswith("6.9% of the requests are of clients without a name of their own")


def test_the_limits_meet_the_target_on_all_rows(
    spark: SparkSession, tables: Path, found: Recommendation
) -> None:
    """By the closed loop, which did not choose them: no name is throttled, also none that the default covers."""
    lines = [
        QuotaLine(user=rule.entity.user, client_id=rule.entity.client_id, request_rate=rule.limit)
        for rule in found.rules
        if rule.key == REQUEST_RATE
    ]
    named = read(spark, str(tables), "entity").where(f"user != '{OTHER}'")
    results = whatif(named, Candidate(lines)).select("throttled_share").collect()
    assert len(results) == 26  # 13 clients on two instances
    assert all(row[0] <= found.target for row in results)


def test_the_file_has_the_evidence_and_can_be_read(found: Recommendation) -> None:
    """Limits of one entity are in one line."""
    now = datetime(2026, 11, 23, tzinfo=UTC)
    file = parse_quota_file(render_quota_file(found.file(now)))
    lines = {line.entity: line for line in file.quotas}
    assert len(lines) == len(file.quotas)
    bob = lines[QuotaEntity("bob")]
    assert bob.request_rate in (128, 129)
    evidence = bob.evidence[REQUEST_RATE]
    assert isinstance(evidence, dict)
    assert evidence["seconds"] == 400
    assert evidence["instances"] == 2
    assert evidence["skew"] == 1
    assert (evidence["max"], evidence["above_target"]) == (120, True)
    assert evidence["need"] == pytest.approx(116, rel=0.01)
    assert 0.5 < evidence["predicted_throttled_share"] <= 1
    assert evidence["backtest_limit"] == 44
    default = lines[QuotaEntity(DEFAULT_NAME)].evidence[REQUEST_RATE]
    assert isinstance(default, dict)
    assert default["covers"] == 10
    assert (default["largest_share_of_one"], "above_target" in default) == (0, False)
    assert (file.source["level"], file.source["enforcement"]) == ("user", "entity")
    assert (file.source["target"], file.source["burst_seconds"]) == (0.01, 2)
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
    write_rows(spark, tmp_path, "entity", rows)
    wishes = Wishes(limits=(REQUEST_RATE,), tests=False, sizing=Sizing(headroom=1))
    first, second = (recommend(spark, str(tmp_path), wishes) for _ in range(2))
    assert first == second
    assert {rule.entity: (rule.limit, rule.covers) for rule in first.rules} == {
        QuotaEntity(None, DEFAULT_NAME): (1, 100),
        QuotaEntity(None, "busy-0"): (pytest.approx(287, abs=3), 1),
        QuotaEntity(None, "busy-1"): (pytest.approx(286, abs=3), 1),
    }


def test_tables_without_named_clients_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """There is nothing to recommend."""
    write_rows(spark, tmp_path, "entity", [used(OTHER, OTHER, 1, 5), used("", "", 1, 5)])
    with pytest.raises(PipelineError, match="no client with a name of its own"):
        recommend(spark, str(tmp_path), Wishes())


def test_limits_are_for_the_enforcement_in_force(spark: SparkSession, tmp_path: Path) -> None:
    """That of most rows; a burst of a second needs less where rates are measured over eleven. Both are told."""
    rows = [
        used(
            "alice",
            "app",
            second,
            110,
            enforcement="channel" if second else "entity",
            quota_rate=999.0,
        )
        for second in range(0, 300, 30)
    ]
    write_rows(spark, tmp_path, "entity", rows)
    wishes = Wishes(limits=(REQUEST_RATE,), tests=False)
    of_rows = recommend(spark, str(tmp_path), wishes)
    other = recommend(spark, str(tmp_path), wishes._replace(enforcement="entity", burst_seconds=5))
    assert of_rows.source["enforcement"] == "channel"
    assert [rule.limit for rule in of_rows.rules] == [pytest.approx(12, abs=1)]
    assert [rule.limit for rule in other.rules] == [pytest.approx(110 / 5 * 1.1, abs=2)]
    assert of_rows.notes == ["the rows have both enforcements; the limits are for channel"]
