"""A standalone Spark cluster on this machine: a master and worker processes, started by Spark's own classes.

Every process has a small heap. The workers give each application one core and one executor each.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from bench.harness.ports import free_ports
from bench.harness.processes import end
from pipeline.java import find_java, java_home

SPARK_HOME: Final = Path(pyspark.__file__).parent
START_SECONDS: Final = 300
STOP_SECONDS: Final = 30
_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE: Final = {"spark.network.timeout": "600s", "spark.executor.heartbeatInterval": "60s"}
SETTINGS: Final = _PATIENCE | {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _OPTIONS,
    "spark.driver.extraJavaOptions": _OPTIONS,
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""The settings of an application of the cluster. Processes that start late do not count as lost."""


def cluster_environment() -> dict[str, str]:
    """Return the environment of the cluster's processes, and of its applications."""
    return os.environ | {
        "JAVA_HOME": str(java_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": _OPTIONS,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def spark_cluster(folder: Path, workers: int = 2, memory: str = "600m") -> Iterator[str]:
    """Run a master and `workers` processes that give one core and `memory` each; yield the master's address."""
    port = free_ports("127.0.0.1", 2 + workers)
    master = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    folder.mkdir(parents=True)

    def launch(name: str, *words: object) -> Path:
        log = folder / f"{name}.log"
        command = [SPARK_HOME / "bin" / "spark-class", *words]
        with log.open("wb") as said:
            processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    env=cluster_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                )
            )
        return log

    try:
        log = launch(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", port, "--webui-port", port + 1,
        )  # fmt: skip
        _await(log, "I have been elected leader", 1, processes)
        for number in range(workers):
            launch(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker",
                "--host", "127.0.0.1", "--cores", 1, "--memory", memory,
                "--webui-port", port + 2 + number, "--work-dir", folder / f"worker-{number}", master,
            )  # fmt: skip
        _await(log, "Registering worker", workers, processes)
        yield master
    finally:
        for process in reversed(processes):
            end(process, STOP_SECONDS)


def executors_used(folder: Path) -> int:
    """Return how many workers of the cluster have run an executor."""
    return sum(1 for worker in folder.glob("worker-*/") if any(worker.glob("app-*/*/stderr")))


def _await(log: Path, words: str, times: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the words are in the log so many times."""
    give_up = time.monotonic() + START_SECONDS
    while len(re.findall(re.escape(words), log.read_text(errors="replace"))) < times:
        said = log.read_text(errors="replace")[-4000:]
        assert all(process.poll() is None for process in processes), said
        assert time.monotonic() < give_up, said
        time.sleep(0.1)
