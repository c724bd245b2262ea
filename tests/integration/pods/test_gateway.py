"""A rolling upgrade of the gateway under load, with the chart's own manifests and the real image, before a real Kafka.

The Service is kube-proxy's rules in the clients' network namespace. Clients are Kafka's Java tools and librdkafka, in a
pod of their own; records are read from the broker, never through Sluice.
"""

from pathlib import Path

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.charts import HELM, Object, objects, render, with_dependencies
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
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
from tests.support.kubernetes.workload import Workload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

PARTITIONS = 3
CLUSTER_IP = "10.96.0.10"
RELEASE, NAMESPACE = "edge", "kafka"


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
