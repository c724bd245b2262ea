"""A rolling upgrade of the gateway under load, with the chart's own manifests and the real image, before a real Kafka.

The Service is kube-proxy's rules in the clients' network namespace. Clients are Kafka's Java tools and librdkafka, in a
pod of their own; records are read from the broker, never through Sluice.
"""

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.charts import HELM, Object, objects, render, with_dependencies
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_figures import PodFigures
from tests.support.kubernetes.pod_network import NodeNetwork, Service
from tests.support.kubernetes.sidecar_pods import (
    JAVA,
    PYTHON,
    READERS,
    SLUICE,
    Pods,
    await_acks,
    await_consumed,
    check_nothing_lost,
    longest_gap_s,
)

PROPAGATION_S: Final = 1.0
_TICK_S: Final = 0.05
pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

PARTITIONS = 3
CLUSTER_IP = "10.96.0.10"
RELEASE, NAMESPACE = "edge", "kafka"


@dataclass(slots=True)
class Workload:
    """The pods of `manifest`, a Deployment; `clients` are the Service in the networks of its clients.

    A context manager: the endpoints are kept up to date inside.
    """

    kubelet: Kubelet
    manifest: Mapping[str, Any]
    clients: Sequence[Service]
    pods: list[Pod] = field(default_factory=list)
    ended: list[Pod] = field(default_factory=list)
    _serials: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        for _ in range(self.manifest["spec"]["replicas"]):
            self.pods.append(self._run())
        for pod in self.pods:
            pod.await_ready()
        self._route([pod.facts.address for pod in self.pods])
        self._thread = threading.Thread(target=self._follow, name="endpoints", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join()

    def update(self, manifest: Mapping[str, Any]) -> None:
        """Replace every pod by one of the new template, and wait until the old ones have ended."""
        self.manifest = manifest
        old = list(self.pods)
        for each in old:
            fresh = self._run()
            self.pods.append(fresh)
            self._await_available(fresh)
            self.pods.remove(each)
            self.ended.append(each)
            each.delete()
        for each in old:
            each.await_end()

    def _run(self) -> Pod:
        name = f"{self.manifest['metadata']['name']}-{next(self._serials)}"
        return self.kubelet.run(name, self.manifest["spec"]["template"])

    def _await_available(self, pod: Pod) -> None:
        """Wait until the pod has been ready for `minReadySeconds` without a pause."""
        needed_s = float(self.manifest["spec"].get("minReadySeconds", 0))
        since_s = float("inf")

        def is_available() -> bool:
            nonlocal since_s
            since_s = min(since_s, time.monotonic()) if pod.is_ready else float("inf")
            return time.monotonic() - since_s >= needed_s

        await_that(is_available, f"{pod.name} to be available", 90, pod.said)

    def _follow(self) -> None:
        """Bring the node's rules in line with the pods that were ready PROPAGATION_S ago."""
        seen: list[tuple[float, list[str]]] = []
        while not self._ending.wait(_TICK_S):
            ready = [pod.facts.address for pod in list(self.pods) if pod.is_ready]
            seen.append((time.monotonic(), ready))
            late = [each for at_s, each in seen if at_s <= time.monotonic() - PROPAGATION_S]
            if late and late[-1] != self.clients[0].endpoints:
                self._route(late[-1])
            seen = seen[max(len(late) - 1, 0) :]

    def _route(self, addresses: Sequence[str]) -> None:
        for each in self.clients:
            each.route_to(addresses)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The gateway's chart with the library in it."""
    return with_dependencies(HELM / "sluice", tmp_path / "charts")


def manifests(chart: Path, kafka: KafkaCluster, release: str) -> list[Object]:
    """Render the chart for this broker; another `release` makes other pods."""
    values = {
        "config": {
            "upstream": {"bootstrap_servers": [kafka.bootstrap]},
            "listen": {"nodes": "0-3"},
        },
        "podAnnotations": {"example.com/release": release},
    }
    return objects(render(chart, values, release=RELEASE, namespace=NAMESPACE))


def of_kind(found: list[Object], kind: str) -> Object:
    """Return the first object of this kind."""
    return next(each for each in found if each["kind"] == kind)


def test_a_rolling_upgrade_under_load_loses_nothing(
    pods: Pods,
    kafka: KafkaCluster,
    topics: Topics,
    node: NodeNetwork,
    chart: Path,
    figures: PodFigures,
) -> None:
    """Both pods are replaced while producers and groups run: no acked record is lost, none is there twice, and the
    groups read each of them.
    """
    written = {JAVA: topics.make(PARTITIONS), PYTHON: topics.make(PARTITIONS)}
    before, after = (manifests(chart, kafka, release) for release in ("1", "2"))
    for each in before:
        pods.kubelet.objects.apply(each)
    service = of_kind(before, "Service")
    host = f"{service['metadata']['name']}.{NAMESPACE}.svc"
    pods.kubelet.names[host] = CLUSTER_IP
    ports = {each["port"]: each["targetPort"] for each in service["spec"]["ports"]}
    network = node.add()
    route = Service(network, CLUSTER_IP, ports)
    with Workload(pods.kubelet, of_kind(before, "Deployment"), [route]) as gateway:
        clients = pods.run_clients(
            f"{host}:{min(ports)}",
            network,
            pods.java_producer(written[JAVA]),
            pods.python_producer(written[PYTHON]),
            pods.java_consumer(written[JAVA]),
            pods.python_consumer(written[PYTHON]),
        )
        clients.await_ready()
        for name in written:
            await_acks(clients, name, 200)
        gateway.update(of_kind(after, "Deployment"))
        for name in written:
            await_acks(clients, name, 200)
        for each in gateway.ended:
            assert each.container(SLUICE).codes == [0], each.said()
        for name, topic in written.items():
            clients.container(name).stop(60)
            stored = check_nothing_lost(clients, name, topics, topic)
            await_consumed(clients, READERS[name], stored)
            gap = f"{longest_gap_s(clients.container(name).current):.1f} s"
            done = f"rolling upgrade of 2 pods, {name.title()}"
            figures.add(done, "records lost, or there twice", f"0 of {len(stored):,}")
            figures.add(done, "longest time without an ack", gap)
        clients.delete()
        clients.await_end()
