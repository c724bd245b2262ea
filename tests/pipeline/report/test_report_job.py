"""The job `report` on small tables, with quotas in force: predictions, and the headline that follows from them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.report.facts import ClientName, ReportFacts
from pipeline.report.headline import curve_of, headline
from pipeline.report.report_job import FACTORS, ReportJob
from tests.support.report_tables import write_report_tables
from tests.support.usage_rows import START_MS


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


def test_a_quota_file_that_is_missing_is_named(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    """Before any work is done."""
    with pytest.raises(PipelineError, match=r"none\.yaml"):
        ReportJob(spark, str(tables), START_MS).run(quotas=str(tmp_path / "none.yaml"))
