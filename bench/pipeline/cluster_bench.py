"""Commands of `sluice-pipeline` on a standalone cluster, each an application of its own, with its figures.

Times are from the start of the process to its end, with the start of Spark. The workers have one core each; what a
worker has beside the heap of its executor is for Python.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.harness import BenchError
from bench.pipeline import event_log
from bench.pipeline.process_use import COMMAND, WORKER, watched
from tests.support.pipeline.spark_cluster import cluster_environment

WORKER_MEMORY: Final = "2g"
SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1200m",
    "spark.network.timeout": "600s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.ui.enabled": "false",
}
_PROGRAM: Final = str(Path(sys.executable).with_name("sluice-pipeline"))


@dataclass(frozen=True, slots=True)
class Figures:
    """A command, or the sum of several runs of one: memory is the most of a run, `days` those in the tables."""

    name: str
    days: int
    seconds: float
    cpu_s: float
    driver_bytes: int
    worker_bytes: int
    shuffled_bytes: int
    spilled_bytes: int
    tasks: int
    files: int
    """Files that it has written."""

    def told(self) -> str:
        """Return a line for the terminal."""
        return (
            f"{self.name}, {self.days} days: {self.seconds:.1f} s, CPU {self.cpu_s:.1f} s, driver"
            f" {gib(self.driver_bytes)}, worker {gib(self.worker_bytes)}, shuffle {gib(self.shuffled_bytes)},"
            f" spill {gib(self.spilled_bytes)}, {self.tasks} tasks, {self.files} files written"
        )


def gib(size_bytes: int) -> str:
    """Return a size in GiB."""
    return f"{size_bytes / 2**30:.2f} GiB"


def together(runs: list[Figures]) -> Figures:
    """Return the sum of runs of the same command, which are not none."""
    last = runs[-1]
    return Figures(
        last.name,
        last.days,
        sum(run.seconds for run in runs),
        sum(run.cpu_s for run in runs),
        max(run.driver_bytes for run in runs),
        max(run.worker_bytes for run in runs),
        sum(run.shuffled_bytes for run in runs),
        sum(run.spilled_bytes for run in runs),
        sum(run.tasks for run in runs),
        sum(run.files for run in runs),
    )


@dataclass(slots=True)
class ClusterBench:
    """A cluster and a folder. `given` has what stands for a capital word in a command."""

    master: str
    folder: Path
    given: Mapping[str, object]
    found: list[Figures] = field(default_factory=list)

    def run(self, name: str, command: str, days: int) -> str:
        """Run a command of `sluice-pipeline`; return what it printed.

        Raises:
            BenchError: its exit code is not 0.
        """
        job, *words = (str(self.given.get(word, word)) for word in command.split())
        before = set(self._files())
        with tempfile.TemporaryDirectory(prefix="sluice-events-") as events, watched() as use:
            settings = SETTINGS | event_log.settings(Path(events))
            conf = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
            began = time.perf_counter()
            done = subprocess.run(
                [_PROGRAM, job, "--master", self.master, *conf, *words],
                env=cluster_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.perf_counter() - began
            totals = event_log.totals(Path(events))
        if done.returncode:
            last = " | ".join(done.stderr.strip().splitlines()[-4:])
            raise BenchError(f"{name}: exit code {done.returncode}: {last}")
        figures = Figures(
            name,
            days,
            seconds,
            use.cpu_s,
            use.peaks.get(COMMAND, 0),
            use.peaks.get(WORKER, 0),
            totals.shuffled_bytes,
            totals.spilled_bytes,
            totals.tasks,
            len(set(self._files()) - before),
        )
        self.found.append(figures)
        print(figures.told(), flush=True)
        return done.stdout

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.rglob("*") if path.is_file())
