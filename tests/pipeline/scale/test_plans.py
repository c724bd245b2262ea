"""The plans of every job: no join of each row with each other, and no step that all rows pass in one partition."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from bench.pipeline.__main__ import Data, commands
from bench.pipeline.made_log import DAYS, write_log, write_quotas
from bench.pipeline.made_month import Month
from bench.pipeline.made_traces import make_traces
from bench.pipeline.run import FRESH
from pipeline.cli.main import main
from pipeline.ingest import rows
from tests.support.pipeline.query_plans import faults, last_query, nodes, plans_after

pytestmark = pytest.mark.slow

ROWS = 10_000
JOBS = ["ingest", "usage", "recommend", "whatif", "traces"]


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The input of the benchmark, in small, for a Spark that numbers the steps of its plans."""
    spark.conf.set("spark.sql.ui.explainMode", "formatted")
    folder = tmp_path_factory.mktemp("data")
    write_log(folder, Month(ROWS, 1, instances=1))
    log, tables = folder / DAYS, folder / "tables"
    CliRunner().invoke(main, ["ingest", str(log), str(tables)], catch_exceptions=False)
    make_traces(folder / "traces.jsonl", 1000)
    quotas = write_quotas(folder / "quotas.yaml")
    return Data(tables, tables, log, folder / "traces.jsonl", quotas)


@pytest.mark.parametrize("name", JOBS)
def test_no_step_of_a_job_is_done_by_one_task_for_all_rows(
    spark: SparkSession, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Every query that the command runs is looked at, as Spark ran it; an hour has several files."""
    monkeypatch.setattr(rows, "ROWS_OF_FILE", ROWS // 20)
    command = [str(tmp_path / "new") if each == FRESH else each for each in commands(data)[name][0]]
    before = last_query(spark)
    told = CliRunner().invoke(main, command)
    plans = plans_after(spark, before)

    assert told.exit_code == 0, told.output
    assert any("Exchange" in plan for plan in plans)
    assert sum(len(nodes(plan)) for plan in plans) > 10
    assert [fault for plan in plans for fault in faults(plan)] == []
