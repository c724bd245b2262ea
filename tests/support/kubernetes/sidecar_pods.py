"""Pods of tests: an application's chart with the sidecar's templates, rendered by Helm, run by the Kubelet."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.support.kafka.java import Java
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import CONSUMER, IDEMPOTENT, PRODUCER
from tests.support.kubernetes.charts import objects, render, with_dependencies
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_network import PodNetwork
from tests.support.kubernetes.runc import Container

CHART: Final = Path(__file__).with_name("charts") / "application"
SLUICE: Final = "sluice"
"""The name of its container in the charts."""
SLUICE_IMAGE: Final = "sluice:0.1.0"
JAVA, PYTHON = "java", "python"
READERS: Final = {JAVA: "java-reader", PYTHON: "python-reader"}
BOOTSTRAP: Final = "$(KAFKA_BOOTSTRAP_SERVERS)"
"""Expanded by the kubelet from the variable that the chart sets."""
PORT: Final = 19092
_PROPERTIES: Final = "producer.properties"
_APPLICATION: Final = "tests.support.kubernetes.pod_application"


@dataclass(slots=True)
class Pods:
    """Runs applications with the sidecar before the brokers at `upstream`; `directory` is for files of the test."""

    kubelet: Kubelet
    directory: Path
    upstream: str
    java: Java
    python: str
    _chart: Path = field(init=False)

    def __post_init__(self) -> None:
        self._chart = with_dependencies(CHART, self.directory / "charts")

    def run(
        self, name: str, *containers: Mapping[str, Any], kube_version: str = "1.33.0", **values: Any
    ) -> Pod:
        """Install the chart with these containers and further values, and start its pod."""
        return self.kubelet.run(name, self.apply(name, containers, kube_version, values))

    def apply(
        self,
        name: str,
        containers: Sequence[Mapping[str, Any]],
        kube_version: str = "1.33.0",
        values: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Render the chart and apply its config maps; return the template of its pod."""
        values = values or {}
        sluice = values.get("sluice", {})
        config = {"upstream": {"bootstrap_servers": self.upstream.split(",")}}
        config |= sluice.get("config", {})
        settings = {"containers": list(containers), "properties": _properties(containers)}
        settings |= {**values, "sluice": {**sluice, "config": config}}
        found = objects(render(self._chart, settings, release=name, kube_version=kube_version))
        for each in found:
            self.kubelet.objects.apply(each)
        return next(each["spec"]["template"] for each in found if each["kind"] == "Deployment")

    def run_clients(
        self, bootstrap: str, network: PodNetwork, *containers: Mapping[str, Any]
    ) -> Pod:
        """Start a pod without the sidecar in this network; its containers are not started again."""
        self.kubelet.objects.config_maps["files"] = {_PROPERTIES: _properties(containers)}
        context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        further = {
            "image": "application",
            "env": [{"name": "KAFKA_BOOTSTRAP_SERVERS", "value": bootstrap}],
            "volumeMounts": [{"name": "files", "mountPath": "/application"}],
            "securityContext": {**context, "runAsUser": 65532},
        }
        spec = {
            "restartPolicy": "Never",
            "containers": [{**each, **further} for each in containers],
            "volumes": [{"name": "files", "configMap": {"name": "files"}}],
        }
        return self.kubelet.run("clients", {"spec": spec}, network)

    def java_producer(self, topic: str, rate: int = 300, **config: str) -> Mapping[str, Any]:
        """Return a container with Kafka's VerifiableProducer, idempotent unless told otherwise."""
        command = self._java(
            PRODUCER,
            *("--bootstrap-server", BOOTSTRAP, "--topic", topic, "--throughput", str(rate)),
            *("--command-config", f"/application/{_PROPERTIES}"),
        )
        lines = [f"{key}={value}" for key, value in (IDEMPOTENT | config).items()]
        return {"name": JAVA, "args": command, "properties": "\n".join(lines)}

    def java_consumer(self, topic: str) -> Mapping[str, Any]:
        """Return a container with Kafka's VerifiableConsumer."""
        command = self._java(
            CONSUMER,
            *("--bootstrap-server", BOOTSTRAP, "--topic", topic, "--group-id", topic, "--verbose"),
        )
        return {"name": READERS[JAVA], "args": command}

    def python_consumer(self, topic: str) -> Mapping[str, Any]:
        """Return a container with `pod_application` as a member of a group."""
        words = ["consume", BOOTSTRAP, topic, topic]
        return {"name": READERS[PYTHON], "args": [self.python, "-m", _APPLICATION, *words]}

    def python_producer(
        self,
        topic: str,
        rate: int = 300,
        linger_ms: int = 5,
        flush_s: int = 25,
        ports: Sequence[int] = (),
    ) -> Mapping[str, Any]:
        """Return a container with `pod_application`, which first connects to `ports`."""
        words = ["produce", BOOTSTRAP, topic, rate, linger_ms, flush_s, *ports]
        return {"name": PYTHON, "args": [self.python, "-m", _APPLICATION, *map(str, words)]}

    def _java(self, main: str, *arguments: str) -> list[str]:
        """Return the command line of a class; it resolves names as the pod does."""
        command = self.java.command(main, *arguments, heap="96m")
        return [each for each in command if not each.startswith("-Djdk.net.hosts.file=")]


def _properties(containers: Sequence[Mapping[str, Any]]) -> str:
    return next((each["properties"] for each in containers if "properties" in each), "")


def lines(container: Container, name: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a container's log that are called so."""
    found = []
    for line in container.said().splitlines():
        if line.startswith("{") and line.endswith("}"):
            event = json.loads(line)
            if name in {event.get("name"), event.get("event")}:
                found.append(event)
    return found


def acked(container: Container) -> set[str]:
    """Return the values that a producer's container had acknowledged; AssertionError if any failed."""
    errors = lines(container, "producer_send_error")
    assert not errors, errors[:3]
    return {event["value"] for event in lines(container, "producer_send_success")}


def await_acks(pod: Pod, name: str, more: int) -> None:
    """Wait until a producer has so many acks more than now."""
    running = pod.container(name).current
    wanted = len(acked(running)) + more
    await_that(lambda: len(acked(running)) >= wanted, f"{more} more acks of {name}", 60, pod.said)


def await_consumed(pod: Pod, name: str, values: set[str]) -> None:
    """Wait until a consumer has read each of these values."""
    running = pod.container(name).current

    def has_all() -> bool:
        return values <= {event["value"] for event in lines(running, "record_data")}

    await_that(has_all, f"{name} to read {len(values)} records", 60, pod.said)


def ack_times_s(container: Container) -> list[float]:
    """Return when each record was acknowledged, in seconds since the epoch."""
    return [event["timestamp"] / 1000 for event in lines(container, "producer_send_success")]


def longest_gap_s(container: Container) -> float:
    """Return the longest time between two acks."""
    times_s = ack_times_s(container)
    return max(later - earlier for earlier, later in pairwise(times_s))


def check_nothing_lost(pod: Pod, name: str, topics: Topics, topic: str) -> set[str]:
    """Compare the acks of an idempotent producer with the broker's records; return the records."""
    stored = [record.value.decode() for record in topics.contents(topic)]
    told = acked(pod.container(name).current)
    assert told <= set(stored), f"{len(told - set(stored))} acked records of {name} are lost"
    assert len(stored) == len(set(stored)), f"a record of {name} is there twice"
    return set(stored)


def end(pod: Pod) -> None:
    """Delete the pod and wait for the end of its containers, in the order of their kinds."""
    pod.delete()
    pod.await_end()


def listening(pod: Pod) -> set[int]:
    """Return the ports that the sidecar listens on."""
    return {port for state, port, _ in _sockets(pod) if state == "0A"}


def connections(pod: Pod) -> set[tuple[int, str]]:
    """Return the connections of the application to the sidecar: the sidecar's port, and the client's address."""
    ports = listening(pod)
    return {(port, peer) for state, port, peer in _sockets(pod) if state == "01" and port in ports}


def _sockets(pod: Pod) -> list[tuple[str, int, str]]:
    """Return state, local port and peer of every TCP socket of the pod's network namespace."""
    text = Path(f"/proc/{pod.container(SLUICE).current.pid}/net/tcp").read_text()
    found = re.findall(r"^ *\d+: \w+:(\w{4}) (\w+:\w{4}) (\w\w)", text, re.MULTILINE)
    return [(state, int(port, 16), peer) for port, peer, state in found]
