"""The applications of examples/kubernetes with the sidecar's configuration of their manifests, before a real Kafka."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from bench.harness.ports import free_ports
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.chart_examples import EXAMPLES, MANIFESTS
from tests.support.kubernetes.pods import pods
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = pytest.mark.slow

RECORDS = 3
END_SECONDS = 60.0


class Application(NamedTuple):
    """An application as its manifests describe it."""

    config: str
    variables: dict[str, str]


def application(name: str) -> Application:
    """Return the sidecar's configuration and the variables of the application's container."""
    found = list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text("utf-8")))
    (own,) = pods(found)[0].spec["containers"]
    (config,) = (each["data"]["sluice.yaml"] for each in found if each["kind"] == "ConfigMap")
    return Application(config, {each["name"]: each["value"] for each in own["env"]})


def run(name: str, command: list[str], upstream: KafkaCluster, folder: Path) -> None:
    """Run the application with a Sluice of its own until it has read some records, then end it as Kubernetes would."""
    topics = Topics(upstream.bootstrap, 1)
    topic = topics.make()
    found = application(name)
    assert found.variables == {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:19092", "TOPIC": name}
    config = folder / "config.yaml"
    config.write_text(found.config, "utf-8")
    admin = {"SLUICE_ADMIN_LISTEN": f"127.0.0.1:{free_ports('127.0.0.1', 1)}"}
    with SluiceProcess(upstream.bootstrap, folder, config=config, variables=admin) as sluice:
        variables = {"KAFKA_BOOTSTRAP_SERVERS": sluice.bootstrap, "TOPIC": topic}
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **variables},
            )
        try:
            assert process.stdout is not None
            read = [process.stdout.readline() for _ in range(RECORDS)]
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=END_SECONDS)
        finally:
            process.kill()
    said = "".join(read) + rest
    flushed = re.search(r"^flushed (\d+) ", said, re.MULTILINE)
    values = [each.value.decode() for each in topics.contents(topic)]

    assert flushed, said + (folder / "errors").read_text("utf-8", "replace")
    assert len(values) == int(flushed[1]) >= RECORDS
    assert {line.strip() for line in read} <= set(values)


def test_python(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """Each record that the application flushed before its end is at the broker; those it read came through Sluice."""
    run("orders", [sys.executable, str(EXAMPLES / "python" / "app.py")], kafka_one, tmp_path)


def test_java(kafka_one: KafkaCluster, java: Java, tmp_path: Path) -> None:
    """The same with Java, compiled from its source."""
    if not shutil.which("javac"):
        pytest.skip("no javac here")
    source = EXAMPLES / "java" / "Payments.java"
    subprocess.run(
        [
            "javac",
            "-Xlint:all,-processing",
            "-Werror",
            "-cp",
            f"{java.jars}/*",
            "-d",
            tmp_path,
            source,
        ],
        check=True,
    )
    command = [java.executable, "-XX:-UsePerfData", "-cp", f"{tmp_path}:{java.jars}/*", "Payments"]

    run("payments", command, kafka_one, tmp_path)
