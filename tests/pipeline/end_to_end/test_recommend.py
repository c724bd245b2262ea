"""Recommended quotas against the real thing: a real Sluice before a real Kafka is recorded, and others take the file.

Five shapes of clients, each with work that comes at times of its own. They send one request at a time and catch up
after a delay, so a slow machine changes when they send and not how much.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.ingest.job import Ingest
from pipeline.tables import read
from pipeline.whatif.jobs import whatif
from pipeline.whatif.predict import Candidate
from policies.quota.config import QuotaLine
from policies.quota.entity import REQUEST_RATE, QuotaEntity
from policies.quota.quota_file import QuotaFile, parse_quota_file
from tests.support.kafka.counting_client import CountingClient, Counts
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.pipeline.whatif_figures import are_wanted, write_recommended
from tests.support.processes.recorded_run import RecordedRun, recorded_run
from tests.support.processes.sluice_process import COMMAND

pytestmark = pytest.mark.slow

SECONDS = 40
SHAPES: dict[str, Callable[[float], float]] = {
    "steady": lambda _: 20.0,
    "bursty": lambda at_s: 60.0 if at_s % 8 < 3 else 0.0,
    "ramp": lambda at_s: 5 + 35 * at_s / SECONDS,
    "night": lambda at_s: 70.0 if at_s % 20 >= 17 else 2.0,  # a day in twenty seconds
    "catch-up": lambda at_s: 50.0 if at_s < 8 else 6.0,
}
"""The requests per second of each client id at a time."""
TARGET = 0.01
ERROR = 0.02
"""Of a share, where the machine has the time."""
SLOW_ERROR = 0.25
"""Beside other tests clients lose time, and what they send in the next moment is a burst of its own."""
LESS = 0.7
"""The limits are tried times this, too: a prediction of no throttle is not all that there is."""


class Run(NamedTuple):
    """A run under the recommended limits times `factor`."""

    enforcement: str
    factor: float


RUNS = [Run(enforcement, factor) for enforcement in ("entity", "channel") for factor in (1.0, LESS)]


def send(port: int, client_id: str, starts: float) -> None:
    """Send as many requests as the clock asks for, one connection, one at a time."""
    due, sent, known_s = 0.0, 0, 0
    steps = 50
    with CountingClient(port, client_id, Counts()) as client:
        while (at_s := time.monotonic() - starts) < SECONDS:
            while known_s < at_s * steps:
                due += SHAPES[client_id](known_s / steps) / steps
                known_s += 1
            while sent < int(due) and time.monotonic() - starts < SECONDS:
                client.heartbeat()
                sent += 1
            time.sleep(0.01)


def send_all(runs: list[RecordedRun]) -> None:
    """Run all clients before each Sluice at the same time."""
    for run in runs:  # a broker's first answer may take seconds
        with CountingClient(run.sluice.port, "first", Counts()) as client:
            client.heartbeat()
    starts = time.monotonic() + 1.02 - time.time() % 1
    time.sleep(starts - time.monotonic())
    threads = [
        threading.Thread(target=send, args=(run.sluice.port, client_id, starts))
        for run in runs
        for client_id in SHAPES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def tables(
    kafka_one: KafkaCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The tables of a run without quotas."""
    folder = tmp_path_factory.mktemp("recommend")
    with recorded_run(kafka_one.bootstrap, folder) as run:
        send_all([run])
    Ingest(spark, str(run.usage_log), str(folder / "tables"), time.time_ns() // 10**6).run()
    return str(folder / "tables")


@pytest.fixture(scope="module")
def files(tables: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Run, Path]:
    """The recommended file of each run."""
    folder = tmp_path_factory.mktemp("files")
    made = {}
    for run in RUNS:
        path = folder / f"{run.enforcement}-{run.factor}.yaml"
        options = ["--enforcement", run.enforcement, "--limit", REQUEST_RATE]
        options += ["--headroom", str(1.1 * run.factor), "--output", str(path)]
        done = CliRunner().invoke(main, ["recommend", tables, *options])
        assert done.exit_code == 0, done.output
        made[run] = path
    return made


@pytest.fixture(scope="module")
def measured(
    kafka_one: KafkaCluster, files: dict[Run, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[Run, dict[str, float]]:
    """The throttled share of each client under each file. The first Sluice gets it by `sluice quotas apply`."""
    folder = tmp_path_factory.mktemp("second")
    with ExitStack() as stack:
        runs = []
        for run, path in files.items():
            given = {"quotas_file": str(path)} if runs else {"admins": ["ANONYMOUS"]}
            quota = {"enforcement": run.enforcement, **given}
            sluice = recorded_run(kafka_one.bootstrap, folder / path.stem, quota=quota)
            runs.append(stack.enter_context(sluice))
        apply(runs[0], files[RUNS[0]])
        send_all(runs)
    return {run: throttled(each) for run, each in zip(files, runs, strict=True)}


def apply(run: RecordedRun, path: Path) -> None:
    """Give a running Sluice the quotas of the file; once more changes nothing."""
    said = [sluice_quotas(run, "apply", str(path)) for _ in range(2)]
    assert said[0].endswith("Done.\n")
    assert said[1].startswith("0 to add, 0 to change, 0 to remove")
    rows = json.loads(sluice_quotas(run, "list", "--json"))
    assert {row["origin"] for row in rows} == {"override"}
    assert {
        (QuotaEntity(row["user"], row["client_id"]), row["quota"]): row["per_second"]
        for row in rows
    } == {
        (line.entity, key): value for line in file_of(path).quotas for key, value in line.limits()
    }


def sluice_quotas(run: RecordedRun, command: str, *arguments: str) -> str:
    return subprocess.run(
        [COMMAND, "quotas", command, "--bootstrap", run.sluice.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def file_of(path: Path) -> QuotaFile:
    return parse_quota_file(path.read_text())


def throttled(run: RecordedRun) -> dict[str, float]:
    """Return the share of the requests of each client that was throttled."""
    sums = {client_id: [0, 0] for client_id in SHAPES}
    for row in run.rows("entity"):
        if row["client_id"] in sums:
            sums[row["client_id"]][0] += row["throttled"]
            sums[row["client_id"]][1] += row["charged"]
    return {client_id: count / charged for client_id, (count, charged) in sums.items()}


@pytest.fixture(scope="module")
def predicted(
    spark: SparkSession, tables: str, files: dict[Run, Path]
) -> dict[Run, dict[str, tuple[float, float]]]:
    """The limit of each client under each file, and the share of its requests that `whatif` says it throttles."""
    found = {}
    for run, path in files.items():
        lines: list[QuotaLine] = list(file_of(path).quotas)
        candidate = replace(Candidate(lines), enforcement=run.enforcement)  # type: ignore[arg-type] # one of two
        rows = whatif(read(spark, tables, "entity"), candidate).collect()
        found[run] = {row["client_id"]: (row["limit"], row["throttled_share"]) for row in rows}
    return found


@pytest.fixture(scope="module")
def figures() -> Iterator[list[list[str]]]:
    """Take the rows of the table, and write it."""
    rows: list[list[str]] = []
    yield rows
    write_recommended(rows)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_a_second_run_is_throttled_as_predicted(
    measured: dict[Run, dict[str, float]],
    predicted: dict[Run, dict[str, tuple[float, float]]],
    figures: list[list[str]],
    run: Run,
) -> None:
    """Under the recommended limits hardly a request is, by either enforcement; under less, the busy clients are."""
    error = ERROR if are_wanted() else SLOW_ERROR
    for client_id in SHAPES:
        (limit, share), actual = predicted[run][client_id], measured[run][client_id]
        figures.append(
            [client_id, f"`{run.enforcement}`", f"{run.factor:g}", f"{limit:g}", f"{share:.1%}", f"{actual:.1%}"]
        )  # fmt: skip
        if run.factor == 1:
            assert share <= TARGET
            assert actual <= TARGET + error, (client_id, limit, actual)
    if run.factor < 1:
        assert max(share for _, share in predicted[run].values()) > 0.1
        assert max(measured[run].values()) > 0.1
