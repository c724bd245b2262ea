"""Recommended quotas against the real thing: a real Sluice before a real Kafka is recorded, and then takes the file.

Clients send by the clock and catch up after a delay, so a slow machine changes when they send and not how much.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.ingest.job import Ingest
from policies.quota.entity import REQUEST_RATE, QuotaEntity
from policies.quota.quota_file import QuotaFile, parse_quota_file
from tests.support.kafka.counting_client import CountingClient, Counts
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.pipeline.whatif_figures import write_recommended
from tests.support.processes.recorded_run import RecordedRun, recorded_run
from tests.support.processes.sluice_process import COMMAND

pytestmark = pytest.mark.slow

RATES = {"busy": 60.0, "steady": 12.0, "quiet-1": 2.0, "quiet-2": 2.0, "quiet-3": 1.0}
"""Requests per second of each client id; a third of `busy` comes in bursts."""
RECORDED_S = 30
TRIED_S = 9
"""As long as the back-test, because a burst passes at the beginning of each."""
ERROR = 0.02
"""Of a predicted share: requests of the first and the last second."""


def send(port: int, client_id: str, seconds: float) -> None:
    """Send as many requests as the clock asks for, one connection, one at a time."""
    rate, sent = RATES[client_id], 0
    with CountingClient(port, client_id, Counts()) as client:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * rate)
            if client_id == "busy":
                due = int(passed * rate * 2 / 3) + int(passed / 2) * int(rate * 2 / 3)
            while sent < due and time.monotonic() - began < seconds:
                client.heartbeat()
                sent += 1
            time.sleep(0.02)


def send_all(runs: Sequence[RecordedRun], seconds: float) -> None:
    """Run all clients before each Sluice at the same time."""
    for run in runs:  # a broker's first answer may take seconds
        with CountingClient(run.sluice.port, "first", Counts()) as client:
            client.heartbeat()
    threads = [
        threading.Thread(target=send, args=(run.sluice.port, client_id, seconds))
        for run in runs
        for client_id in RATES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def tables(
    kafka_one: KafkaCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tables of a run without quotas."""
    folder = tmp_path_factory.mktemp("recommend")
    with recorded_run(kafka_one.bootstrap, folder) as run:
        send_all([run], RECORDED_S)
    Ingest(spark, str(run.usage_log), str(folder / "tables"), time.time_ns() // 10**6).run()
    return folder / "tables"


@pytest.fixture(scope="module")
def figures() -> Iterator[list[list[str]]]:
    """Take the rows of the table of both tests, and write it."""
    rows: list[list[str]] = []
    yield rows
    write_recommended(rows)


def row_of(quotas: str, file: QuotaFile, entity: QuotaEntity, *shares: float) -> list[str]:
    limit = next(line.request_rate for line in file.quotas if line.entity == entity)
    return [quotas, f"`{entity.client_id}`", f"{limit:g}", *(f"{each:.1%}" for each in shares)]


def recommended(tables: Path, output: Path, *options: str) -> QuotaFile:
    done = CliRunner().invoke(main, ["recommend", str(tables), "--output", str(output), *options])
    assert done.exit_code == 0, done.output
    return parse_quota_file(output.read_text())


def predicted(file: QuotaFile) -> dict[QuotaEntity, float]:
    """Return the share of requests of each rule that is predicted to be throttled."""
    found: dict[QuotaEntity, float] = {}
    for line in file.quotas:
        evidence = line.evidence.get(REQUEST_RATE)
        if isinstance(evidence, dict):
            found[line.entity] = evidence["predicted_throttled_share"]
    return found


def throttled(run: RecordedRun, file: QuotaFile) -> dict[QuotaEntity, float]:
    """Return the share of requests of each rule's clients that was throttled."""
    named = {line.client_id for line in file.quotas}
    sums: dict[QuotaEntity, list[int]] = {}
    for row in run.rows("entity"):
        if row["client_id"] in RATES:
            client_id = row["client_id"] if row["client_id"] in named else "<default>"
            found = sums.setdefault(QuotaEntity(None, client_id), [0, 0])
            found[0] += row["throttled"]
            found[1] += row["charged"]
    return {entity: count / charged for entity, (count, charged) in sums.items()}


@contextmanager
def both_ways(kafka: KafkaCluster, folder: Path, file: Path) -> Iterator[list[RecordedRun]]:
    """Run two Sluices with the quotas of the file: one reads it, the other one gets it by `sluice quotas apply`."""
    with (
        recorded_run(kafka.bootstrap, folder / "reads", quota={"quotas_file": str(file)}) as one,
        recorded_run(kafka.bootstrap, folder / "takes", quota={"admins": ["ANONYMOUS"]}) as other,
    ):
        said = [sluice_quotas(other, "apply", str(file)) for _ in range(2)]
        assert said[0].endswith("Done.\n")
        assert said[1].startswith("0 to add, 0 to change, 0 to remove")
        origins = []
        for run in (one, other):
            rows = json.loads(sluice_quotas(run, "list", "--json"))
            assert {
                (QuotaEntity(row["user"], row["client_id"]), row["quota"]): row["per_second"]
                for row in rows
            } == {
                (line.entity, key): value
                for line in parse_quota_file(file.read_text()).quotas
                for key, value in line.limits()
            }
            origins.append({row["origin"] for row in rows})
        assert origins == [{"quotas_file"}, {"override"}]
        yield [one, other]


def sluice_quotas(run: RecordedRun, command: str, *arguments: str) -> str:
    return subprocess.run(
        [COMMAND, "quotas", command, "--bootstrap", run.sluice.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_recommended_quotas_throttle_no_more_than_predicted(
    kafka_one: KafkaCluster, tables: Path, tmp_path: Path, figures: list[list[str]]
) -> None:
    """The busy client id and the steady one have rules of their own, the quiet ones a default; none is held back."""
    output = tmp_path / "quotas.yaml"
    file = recommended(tables, output, "--headroom", "1.5", "--limit", REQUEST_RATE)
    limits = {line.client_id: line.request_rate or 0 for line in file.quotas}
    assert limits.keys() >= {"busy", "<default>"}
    assert all(1.3 * RATES[name] < limits[name] < 2 * RATES[name] for name in limits.keys() & RATES)
    with both_ways(kafka_one, tmp_path, output) as runs:
        send_all(runs, TRIED_S)
    most = predicted(file)
    for run in runs:
        found = throttled(run, file)
        assert found.keys() == most.keys()
        for entity, share in found.items():
            assert share <= most[entity] + ERROR, (entity, share, most)
    shares = [throttled(run, file) for run in runs]
    figures += [row_of("need", file, each, most[each], *(s[each] for s in shares)) for each in most]


def test_quotas_below_the_need_throttle_no_more_than_predicted(
    kafka_one: KafkaCluster, tables: Path, tmp_path: Path, figures: list[list[str]]
) -> None:
    """Half of the median: the prediction says that most requests are throttled, and so it is."""
    output = tmp_path / "quotas.yaml"
    options = ("--percentile", "50", "--headroom", "0.5", "--limit", REQUEST_RATE)
    file = recommended(tables, output, *options)
    with both_ways(kafka_one, tmp_path, output) as runs:
        send_all(runs, TRIED_S)
    busy = QuotaEntity(None, "busy")
    most = predicted(file)[busy]
    assert most > 0.3
    for run in runs:
        share = throttled(run, file)[busy]
        assert 0.1 < share <= most + ERROR
    figures.append(row_of("half", file, busy, most, *(throttled(run, file)[busy] for run in runs)))
