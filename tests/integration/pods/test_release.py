"""`helm install --wait` to a running gateway: a real API server and its controllers, the real image, a real Kafka.

The kubelet is the tests' own (`tests.support.kubernetes.kubelet`). Skipped without the programs of `make apiserver`.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kubernetes.chart_files import value_sets
from tests.support.kubernetes.helm_cli import Helm
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
from tests.support.kubernetes.kube import ControlPlane
from tests.support.kubernetes.kube_api import KubeApi, Object
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.node_agent import NodeAgent
from tests.support.kubernetes.oci_config import Image
from tests.support.kubernetes.pod_network import NodeNetwork
from tests.support.kubernetes.releases import RESTRICTED, prepared
from tests.support.kubernetes.sidecar_pods import SLUICE, SLUICE_IMAGE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

QUOTAS = "sluice/quotas"
REPLICAS = 3
MEMORY_BYTES = 512 * 1024 * 1024
FAST = ("minReadySeconds=1", "drain.preStopSleepSeconds=1", "probes.readiness.periodSeconds=1")
"""Shorter times, so that the test is short."""


@dataclass(slots=True)
class Release:
    """An installed release whose pods run."""

    api: KubeApi
    helm: Helm
    agent: NodeAgent
    namespace: str
    chart: Path
    values: Path
    printed: str = ""

    def try_upgrade(self, *arguments: str, command: str = "upgrade"):
        """Run `helm upgrade --wait` with these values set beside those of the set."""
        sets = [word for each in FAST for word in ("--set", each)]
        common = ("--namespace", self.namespace, "--values", self.values, "--wait")
        return self.helm.try_run(command, "orders", self.chart, *common, *sets, *arguments)

    def upgrade(self, *values: str, command: str = "upgrade") -> str:
        """Upgrade, or raise AssertionError with Helm's words and the pods' logs; return what Helm prints."""
        sets = [word for each in values for word in ("--set", each)]
        done = self.try_upgrade(*sets, command=command)
        logs = {name: pod.said()[-1000:] for name, pod in self.agent.pods.items()}
        assert done.returncode == 0, f"{done.stderr} {logs}"
        return done.stdout

    def pods(self) -> dict[str, Object]:
        """Return the pods that are not ending."""
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return {
            each["metadata"]["name"]: each
            for each in found
            if "deletionTimestamp" not in each["metadata"]
        }

    def deployment(self) -> Object:
        """Return the Deployment."""
        return self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/orders-sluice")

    def evict(self, pod: str) -> int:
        """Ask for a pod's eviction, as `kubectl drain` does; return the HTTP status."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        return self.api.ask("POST", path, body).status


@pytest.fixture(scope="module")
def release(
    plane: ControlPlane,
    helm: Helm,
    node: NodeNetwork,
    image: Image,
    kafka: KafkaCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Release]:
    """The gateway with quotas and three pods, installed with --wait; each test upgrades it."""
    (found,) = (each for each in value_sets() if each.name == QUOTAS)
    values = copy.deepcopy(found.values)
    values["config"]["upstream"]["bootstrap_servers"] = [kafka.bootstrap]
    folder = tmp_path_factory.mktemp("gateway")
    namespace = plane.api.make_namespace("gateway", RESTRICTED)
    with (
        Kubelet(folder / "pods", node, {SLUICE_IMAGE: image}) as kubelet,
        NodeAgent(plane.api, namespace, kubelet) as agent,
    ):
        made = Release(
            plane.api, helm, agent, namespace, *prepared(found._replace(values=values), folder)
        )
        made.printed = made.upgrade(command="install")
        yield made
        helm.run("uninstall", "orders", "--namespace", namespace, "--wait")
        await_that(lambda: not agent.pods, "the pods' end")
        served = [pod for pod in agent.ended.values() if pod.has_happened(SLUICE, "ready", 1)]
        assert len(served) >= REPLICAS
        for pod in served:
            assert pod.container(SLUICE).codes == [0], pod.said()


def test_install_waits_for_a_gateway_that_runs(release: Release) -> None:
    """The pods run on one node each, serve the Service's ports, know their memory limit, and drain at the end."""
    pods = release.pods()
    assert len(pods) == REPLICAS
    assert len({each["spec"]["nodeName"] for each in pods.values()}) == REPLICAS
    slices = release.api.items(
        f"/apis/discovery.k8s.io/v1/namespaces/{release.namespace}/endpointslices"
    )
    addresses = {
        address
        for each in slices
        for endpoint in each["endpoints"]
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    }
    assert addresses == {pod.facts.address for pod in release.agent.pods.values()}
    ports = {port["port"] for each in slices for port in each["ports"]}
    assert ports == {9092, 9093, 9094, 9095}
    for pod in release.agent.pods.values():
        assert f'"limit_bytes": {MEMORY_BYTES}' in pod.said(), pod.said()
    assert f"orders-sluice.{release.namespace}.svc:9092" in release.printed
    assert "quota applies to each pod" in release.printed


def test_helm_test_writes_a_record_and_reads_it_back(release: Release) -> None:
    """The pod of `helm test` reaches each broker by the Service, and a record there and back."""
    printed = release.helm.run("test", "orders", "--namespace", release.namespace)

    assert "Phase:          Succeeded" in printed, printed


def test_a_changed_policy_reaches_the_running_pods(release: Release) -> None:
    """`helm upgrade` with another quota replaces no pod: each loads the changed file."""
    before = {each["metadata"]["uid"] for each in release.pods().values()}

    release.upgrade("config.policies[0].config.quotas[0].request_rate=50")

    for pod in release.agent.pods.values():
        await_that(lambda pod=pod: "config_reloaded" in pod.said(), pod.said())
    assert {each["metadata"]["uid"] for each in release.pods().values()} == before


def test_an_upgrade_keeps_every_pod_s_place_served(release: Release) -> None:
    """A setting that needs a restart replaces the pods one by one; at no time are fewer than three ready."""
    before = {each["metadata"]["uid"] for each in release.pods().values()}
    release.agent.ready_counts.clear()

    release.upgrade("config.log.format=text")

    after = {each["metadata"]["uid"] for each in release.pods().values()}
    assert len(after) == REPLICAS
    assert not before & after
    assert min(release.agent.ready_counts) >= REPLICAS


def test_an_eviction_waits_for_the_disruption_budget(release: Release) -> None:
    """With minAvailable 66% of three pods one may be evicted, the second only when there are three again."""
    first, second, _ = release.pods()
    path = f"/apis/policy/v1/namespaces/{release.namespace}/poddisruptionbudgets/orders-sluice"
    await_that(lambda: release.api.get(path)["status"].get("disruptionsAllowed") == 1, "the budget")

    assert release.evict(first) == 201
    assert release.evict(second) == 429

    await_that(
        lambda: release.api.get(path)["status"].get("disruptionsAllowed") == 1, "the new pod"
    )
    assert release.evict(second) == 201
    await_that(
        lambda: release.deployment()["status"].get("availableReplicas") == REPLICAS, "three pods"
    )


def test_a_configuration_that_does_not_start_is_rolled_back(release: Release) -> None:
    """New pods that crash replace none of the old ones, and Helm returns to the revision that ran."""
    before = set(release.pods())
    release.agent.ready_counts.clear()

    done = release.try_upgrade(
        "--rollback-on-failure",
        *("--timeout", "8s"),
        *("--set", "extraEnv[0].name=SLUICE_LISTEN_PORT", "--set", "extraEnv[0].value=none"),
    )

    assert done.returncode == 1
    assert "rolled back" in done.stderr, done.stderr
    assert before <= set(release.pods())
    assert min(release.agent.ready_counts) >= REPLICAS
