"""All figures of a report from small tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.report.collect import usage_facts
from pipeline.report.facts import ClientName
from pipeline.report.headline import caution, headline
from tests.support.pipeline.report_tables import SECONDS, write_report_tables
from tests.support.telemetry.usage_rows import START_MS


def test_the_figures_are_those_of_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Every section has its figures; what is missing is counted."""
    write_report_tables(spark, tmp_path)

    facts = usage_facts(spark, str(tmp_path), START_MS, duplicates=7)

    assert facts.scope.end_ms - facts.scope.start_ms == SECONDS * 1000
    assert facts.scope.written_at == "2025-11-21 00:00 UTC"
    assert (
        headline(facts)
        == "62 % of the requests of alice / app were throttled, by 70 ms on average."
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


def test_tables_without_rows_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """The message names the path and what to do."""
    with pytest.raises(PipelineError, match="sluice-pipeline ingest"):
        usage_facts(spark, str(tmp_path / "none"), START_MS)
