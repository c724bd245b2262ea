"""The job `report` on small tables, with a quota file: needs, predictions, and the headline that follows from them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.report.facts import CAPTURE, ROWS, ClientName, ReportFacts
from pipeline.report.headline import caution, curve_of, headline
from pipeline.report.report_job import FACTORS, ReportJob
from pipeline.whatif.simulator import Simulation
from tests.support.pipeline.delta_tables import write_rows
from tests.support.pipeline.report_tables import SECONDS, write_report_tables
from tests.support.pipeline.simulated_clients import (
    bursts,
    capture_rows,
    clients,
    entity_rows,
    quota_config,
)
from tests.support.telemetry.usage_rows import START_MS, numbered

QUOTAS = "version: 1\nquotas: [{user: alice, request_rate: 77}, {user: bob, request_rate: 300}]\n"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in which alice is throttled at 30 requests/s."""
    folder = tmp_path_factory.mktemp("tables")
    write_report_tables(spark, folder)
    return folder


@pytest.fixture(scope="module")
def facts(spark: SparkSession, tables: Path) -> ReportFacts:
    """All figures without a quota file."""
    return ReportJob(spark, str(tables), START_MS).run(duplicates=7)


def test_every_section_has_the_figures_of_the_tables(facts: ReportFacts) -> None:
    """Traffic, throttles, waits and pools; what is missing is counted."""
    assert facts.scope.end_ms - facts.scope.start_ms == SECONDS * 1000
    assert facts.scope.written_at == "2025-11-21 00:00 UTC"
    assert headline(facts).startswith(
        "62 % of the requests of alice / app were throttled, by 70 ms on average."
    )
    assert {each.client for each in facts.clients} == {
        ClientName("alice", "app"),
        ClientName("bob", "etl"),
    }
    assert {each.name for each in facts.traffic} == {"alice", "bob"}
    assert sum(each.share > 0 for each in facts.throttling) == 48
    assert {(each.stage, each.by, each.name) for each in facts.waits} == {
        ("throttle", "api", "Produce"),
        ("throttle", "client", "alice / app"),
    }
    assert {each.stage for each in facts.stages} == {"throttle", "upstream"}
    assert max(each.used_share for each in facts.pools) == pytest.approx(0.59)
    assert facts.quality.rows == {"entity": 120, "api": 6, "instance": 60}
    assert caution(facts).startswith("3 rows are missing, 1 row was set aside")
    assert facts.quality.duplicates == 7


def test_needs_stand_beside_the_quota_in_force(facts: ReportFacts) -> None:
    """Alice needs more than the tables say that she sent, because she was blocked."""
    needs = {each.name: each for each in facts.needs}

    assert needs["alice"].quota == 30
    assert needs["bob"].quota is None
    assert needs["bob"].need == pytest.approx(120 * 59.4 / 61.4, rel=0.01)
    assert all(
        each.recommended is not None and each.recommended > each.need for each in facts.needs
    )
    assert needs["alice"].mean <= needs["alice"].need


def test_predictions_are_for_the_quotas_in_force(facts: ReportFacts) -> None:
    """Every factor has a prediction for alice and none for bob, who has no quota; larger ones throttle less."""
    cells = {each.factor: each for each in facts.sweep if each.client == ClientName("alice", "app")}

    assert set(cells) == set(FACTORS)
    assert {each.client.user for each in facts.sweep} == {"alice"}
    assert cells[1.0].quota_rate == 30
    assert cells[0.5].throttled_share > cells[4.0].throttled_share == 0
    assert facts.sweep_of == "the present quotas"
    assert len(curve_of(facts.sweep)) == len(FACTORS)
    assert "requests/s instead of 30 would have ended that." in headline(facts)


def test_a_quota_file_gives_the_recommended_quotas(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    """The limits are those of the file; a file or a table that is missing is named."""
    file = tmp_path / "quotas.yaml"
    file.write_text(QUOTAS, "utf-8")

    facts = ReportJob(spark, str(tables), START_MS).run(quotas=str(file))

    assert {each.name: each.recommended for each in facts.needs} == {"alice": 77, "bob": 300}
    with pytest.raises(PipelineError, match=r"none\.yaml"):
        ReportJob(spark, str(tables), START_MS).run(quotas=str(tmp_path / "none.yaml"))
    with pytest.raises(PipelineError, match="sluice-pipeline ingest"):
        ReportJob(spark, str(tmp_path / "none"), START_MS).run()


@pytest.mark.parametrize("kept", [1.0, 0.9])
def test_a_capture_of_all_requests_is_what_predictions_are_made_from(
    spark: SparkSession, tmp_path: Path, kept: float
) -> None:
    """Under the present quota exactly the recorded requests are throttled; a capture that lacks some is not used."""
    sessions = clients(2, bursts(30, 1500, 3), 400, broker_ms=2)
    quota = {"user": "alice", "request_rate": 20.0}
    run = Simulation(sessions, quota_config("entity", quota), START_MS + 20_000)
    in_force = {"enforcement": "entity", "quota_entity": "user=alice", "quota_rate": 20.0}
    rows = entity_rows(run, sessions, 60, **in_force)
    captured = capture_rows(run, sessions)
    captured = captured[: round(len(captured) * kept)]
    for family, made in {"entity": rows, "capture": captured}.items():
        write_rows(spark, tmp_path, family, numbered(made))

    facts = ReportJob(spark, str(tmp_path), START_MS).run()

    assert facts.sweep_from == (CAPTURE if kept == 1.0 else ROWS)
    (cell,) = (each for each in facts.sweep if each.factor == 1.0)
    if kept == 1.0:
        assert cell.accepted == len(run.passed)
        assert cell.throttled == sum(each.delay_ms > 0 for each in run.passed) > 0
