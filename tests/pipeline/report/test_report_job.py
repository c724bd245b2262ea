"""The job `report` on small tables, with a quota file: needs, predictions, and the headline that follows from them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.report.facts import ClientName, ReportFacts
from pipeline.report.headline import curve_of, headline
from pipeline.report.report_job import FACTORS, ReportJob
from tests.support.report_tables import write_report_tables
from tests.support.usage_rows import START_MS

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
    return ReportJob(spark, str(tables), START_MS).run()


def test_needs_stand_beside_the_quota_in_force(facts: ReportFacts) -> None:
    """Alice needs more than the tables say that she sent, because she was blocked."""
    needs = {each.name: each for each in facts.needs}

    assert needs["alice"].quota == 30
    assert needs["bob"].quota is None
    assert needs["bob"].p999 == pytest.approx(120 * 11 / 10.5, rel=0.01)
    assert all(
        each.recommended is not None and each.recommended > each.p999 for each in facts.needs
    )
    assert needs["alice"].p50 <= needs["alice"].p999


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
    """The limits are those of the file; a file that is missing is named."""
    file = tmp_path / "quotas.yaml"
    file.write_text(QUOTAS, "utf-8")

    facts = ReportJob(spark, str(tables), START_MS).run(quotas=str(file))

    assert {each.name: each.recommended for each in facts.needs} == {"alice": 77, "bob": 300}
    with pytest.raises(PipelineError, match=r"none\.yaml"):
        ReportJob(spark, str(tables), START_MS).run(quotas=str(tmp_path / "none.yaml"))
