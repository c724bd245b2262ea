"""Every command by spark-submit, on a standalone master with two workers; only the package has the project's code."""

import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.cli.main import COMMANDS
from tests.support.pipeline import streamed_log
from tests.support.pipeline.cluster_jobs import Ended, Told, run_on_cluster, submit
from tests.support.pipeline.spark_cluster import executors_used, spark_cluster
from tests.support.telemetry.request_traces import trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces
from tests.support.telemetry.usage_rows import Row, numbered, usage_row, write_usage_log

pytestmark = pytest.mark.slow

WITHOUT_SPARK = {"package"}
JOBS = {
    "ingest": "ingest LOG TABLES",
    "maintain": "maintain TABLES",
    "migrate": "migrate OLD/tables OUT/migrated",
    "usage": "usage TABLES --json",
    "recommend": "recommend TABLES --output OUT/recommended.yaml",
    "whatif": "whatif TABLES --quotas QUOTAS --json",
    "traces": "traces TRACES --json",
    "stream": "stream LOG OUT/streamed --checkpoint OUT/checkpoint --once",
    "report": "report TABLES --traces TRACES --output OUT/report.html",
    "all": "all LOG OUT/all --traces TRACES",
}
QUOTAS = "version: 1\nquotas:\n- {user: alice, request_rate: 1}\n"
MINUTES = 10
PARQUET_TABLES = Path(__file__).parents[1] / "migrate" / "parquet_tables.tar.gz"


@dataclass
class Cluster:
    """The commands as they ended, and how many workers had a part in it."""

    folder: Path
    told: Told
    workers: int

    def ended(self, name: str) -> Ended:
        """Return how a command ended."""
        (found,) = (each for each in self.told.commands if each.words[0] == name)
        return found


def usage_log() -> list[Row]:
    """Return rows of the stream's clients, and of the other families that the jobs read."""
    rows = streamed_log.rows(MINUTES)
    for row in [row for row in rows if row["client_id"] == "noisy"][::10]:
        common = {name: row[name] for name in ("instance", "user", "ts_ms")}
        histograms = {"upstream_i": [80], "upstream_n": [3], "throttle_i": [160], "throttle_n": [1]}
        rows.append(
            usage_row("api", **common, client_id="noisy", requests=3, replied=3, **histograms)
        )
        rows.append(usage_row("topic", **common, topic="orders", produce_records=5))
        del common["user"]
        rows.append(usage_row("instance", **common, keys=3, sessions=6))
    return numbered(rows)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Run every command that needs Spark in one application, those that write the tables first."""
    folder = tmp_path_factory.mktemp("cluster")
    out = folder / "out"
    out.mkdir()
    write_usage_log(folder / "log", usage_log())
    with tarfile.open(PARQUET_TABLES) as archive:
        archive.extractall(folder / "old", filter="data")
    (folder / "quotas.yaml").write_text(QUOTAS)
    spans = spans_with_mute(trace(waits(("throttle", 3_000_000)), quiet_ms=2))
    places = {
        "LOG": folder / "log",
        "TABLES": folder / "tables",
        "OLD": folder / "old",
        "OUT": out,
        "QUOTAS": folder / "quotas.yaml",
        "TRACES": write_traces(folder / "traces.jsonl", spans),
    }
    commands = []
    for name in COMMANDS:
        if name not in WITHOUT_SPARK:
            words = JOBS[name]
            for place, path in places.items():
                words = words.replace(place, str(path))
            commands.append(words.split())
    with spark_cluster(folder / "spark") as master:
        told = run_on_cluster(master, folder, commands)
    return Cluster(folder, told, executors_used(folder / "spark"))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_SPARK])
def test_a_command_ends_well_on_a_cluster(cluster: Cluster, name: str) -> None:
    """Exit code 0, with tables, quotas and traces that have something to say."""
    ended = cluster.ended(name)

    assert ended.code == 0, ended.said


def test_driver_and_workers_import_the_project_from_the_zip(cluster: Cluster) -> None:
    """Their Python has not installed it. Each worker has a copy of its own."""
    folders, files = zip(*cluster.told.imported, strict=True)

    assert cluster.workers == 2
    assert len(set(folders)) == 3
    assert all("sluice.zip" in file for file in files), files


def test_sparks_log_is_quiet(cluster: Cluster) -> None:
    """Spark has pages of INFO by default. Warnings of the launcher come before the project's code."""
    assert " INFO " not in cluster.told.log
    assert len(cluster.told.log.splitlines()) < 10, cluster.told.log


def test_a_stream_on_the_cluster_has_each_row_once(spark: SparkSession, cluster: Cluster) -> None:
    """The same rollups and alerts as with a local master."""
    output = str(cluster.folder / "out" / "streamed")
    rows = streamed_log.rows(MINUTES)

    assert streamed_log.found_sums(spark, output) == streamed_log.expected_sums(rows)
    assert list(streamed_log.found_alerts(spark, output)) == streamed_log.EXPECTED_ALERTS


def test_the_printed_command_runs_a_job(tmp_path: Path, cluster: Cluster) -> None:
    """As it is, without a session of its own around it: on another cluster, here the local one."""
    tables = tmp_path / "tables"

    submit("local[2]", tmp_path, "ingest", str(cluster.folder / "log"), str(tables))

    assert (tables / "entity").is_dir()
