"""The gateway's chart: what Kubernetes and clients get of each set of values."""

import re

import msgspec
import pytest
import yaml

from proxy.cli.ping import ping
from proxy.config.sections import ListenSettings
from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.charts import Object
from tests.support.kubernetes.gateway import CHART, SERVER, Release, values

SETS = value_sets(CHART)
IDS = [each.name.removeprefix("sluice/") for each in SETS]
QUOTA = {"use": "quota", "config": {"quotas": [{"user": "alice", "request_rate": 5}]}}


def listen(release: Release) -> ListenSettings:
    """Return the settings of the listener that Sluice would read."""
    return msgspec.convert(release.settings["listen"], ListenSettings)


@pytest.mark.parametrize("given", SETS, ids=IDS)
def test_the_service_has_the_ports_that_sluice_binds(given: ValueSet) -> None:
    """The bootstrap port and one for each node, under their own numbers, because clients are told these."""
    found = given.objects()
    (config,) = (each["data"]["sluice.yaml"] for each in found if "sluice.yaml" in data(each))
    listener = msgspec.convert(yaml.safe_load(config)["listen"], ListenSettings)
    service = next(
        each for each in found if each["kind"] == "Service" and "clusterIP" not in each["spec"]
    )

    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    assert list(ports.values()) == list(listener.client_ports())
    nodes = {f"node-{node}": port for node, port in listener.node_ports().items()}
    assert ports == {"kafka": listener.port} | nodes
    assert all(each["targetPort"] == each["port"] for each in service["spec"]["ports"])


def data(found: Object) -> Object:
    return found.get("data", {})


def test_clients_are_told_the_name_of_the_service() -> None:
    """The host is the Service's, unless the user gives another; the cluster's domain can be added."""
    assert listen(Release(values())).advertised_host == SERVER
    domain = Release(values(clusterDomain="cluster.local"))
    assert listen(domain).advertised_host == f"{SERVER}.cluster.local"
    own = Release(values({"listen": {"advertised_host": "kafka.example.com"}}))
    assert listen(own).advertised_host == "kafka.example.com"


@pytest.mark.parametrize("nodes", [7, "7", "0-2, 10 ,5-6", "2147483640-2147483647"])
def test_every_form_of_nodes_is_read_as_sluice_reads_it(nodes: object) -> None:
    """Numbers, ranges and spaces; the ports are in the order of the text."""
    release = Release(values({"listen": {"nodes": nodes}}))
    ports = [each["name"] for each in release.one("Service")["spec"]["ports"][1:]]

    assert ports == [f"node-{node}" for node in listen(release).node_ids()]


def test_one_pod_serves_all_node_ports_of_every_replica() -> None:
    """A Deployment with two replicas, a budget and a spread over zones and nodes is the default."""
    release = Release(values())
    spec = release.workload["spec"]

    assert (release.workload["kind"], spec["replicas"]) == ("Deployment", 2)
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert release.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"].rpartition("/")[2] for each in spread] == ["zone", "hostname"]
    assert all(each["labelSelector"] == spec["selector"] for each in spread)


def test_one_replica_has_no_budget() -> None:
    """It would keep its node from being drained."""
    assert not Release(values(replicas=1)).all("PodDisruptionBudget")


def test_autoscaling_leaves_the_number_of_pods_to_kubernetes() -> None:
    """An upgrade would else set it back; the budget follows the least number."""
    release = Release(values(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 3}))
    scaler = release.one("HorizontalPodAutoscaler")["spec"]

    assert "replicas" not in release.workload["spec"]
    assert scaler["scaleTargetRef"]["name"] == release.workload["metadata"]["name"]
    assert scaler["metrics"][0]["containerResource"]["container"] == release.container["name"]
    assert not release.all("PodDisruptionBudget")


@pytest.mark.parametrize(
    ("version", "action"),
    [("1.29.0", "exec"), ("1.30.0", "sleep"), ("v1.31.2-gke.100", "sleep"), ("1.37.0", "sleep")],
)
def test_a_pod_serves_until_it_gets_no_new_connections(version: str, action: str) -> None:
    """Before SIGTERM it sleeps, by Kubernetes itself where that is on by default, and nothing cuts the drain short."""
    release = Release(values(), kube_version=version)
    pod = release.workload["spec"]["template"]["spec"]
    hook = release.container["lifecycle"]["preStop"]

    assert list(hook) == [action]
    assert hook["sleep"] == {"seconds": 5} if action == "sleep" else "sleep(5)" in str(hook)
    drain_s = release.settings["drain"]["timeout_ms"] / 1000
    assert pod["terminationGracePeriodSeconds"] > 5 + drain_s + 2


def test_the_version_of_kubernetes_can_be_given() -> None:
    """`helm template` without a cluster knows only its own."""
    release = Release(values(kubeVersion="1.29"), kube_version="1.37.0")

    assert "exec" in release.container["lifecycle"]["preStop"]
    assert "lifecycle" not in Release(values(drain={"preStopSleepSeconds": 0})).container


def test_a_quota_policy_knows_the_number_of_pods() -> None:
    """So it refuses live changes, which would reach one pod only; the user's own number is kept."""
    own = {**QUOTA, "name": "own", "config": {"replicas": 9}}
    several = Release(values({"policies": [QUOTA, own]}, replicas=3)).settings["policies"]
    one = Release(values({"policies": [QUOTA]}, replicas=1)).settings["policies"]

    assert [each["config"]["replicas"] for each in several] == [3, 9]
    assert one == [QUOTA]


@pytest.mark.parametrize("given", SETS, ids=IDS)
def test_the_test_is_a_command_of_sluice(given: ValueSet) -> None:
    """`sluice ping` takes the arguments of its pod, and a file that they name is mounted there."""
    for pod in (each for each in given.objects() if each["kind"] == "Pod"):
        (container,) = pod["spec"]["containers"]
        name, *arguments = container["args"]
        folders = [each["mountPath"] for each in container.get("volumeMounts", ())]
        files = [each for each in arguments if each.startswith("/etc/")]
        assert name == ping.name
        # The password's file is opened while the options are read.
        given_here = ["-" if each.endswith("/password") else each for each in arguments]
        assert ping.make_context(name, given_here).params["topic"] == "sluice-test"
        assert all(file.rpartition("/")[0] in folders for file in files)
        assert "tls.key" not in str(pod["spec"].get("volumes"))


def test_the_notes_say_how_to_connect_and_what_to_mind() -> None:
    """The bootstrap address, the table of nodes, and a warning for each thing that surprises."""
    calm = Release(values({"listen": {"nodes": "0-31"}})).notes
    assert f"bootstrap.servers={SERVER}:9092" in calm
    assert "security.protocol=PLAINTEXT\n" in calm
    assert re.search(r"^0 +9093$", calm, re.MULTILINE)
    assert re.search(r"^31 +9124$", calm, re.MULTILINE)
    assert "WARNING" not in calm

    config: Object = {"policies": [QUOTA]}
    config["upstream"] = {
        "bootstrap_servers": ["kafka:9092"],
        "sasl": {"mechanism": "PLAIN", "username": "sluice"},
    }
    loud = Release(
        {
            "config": config,
            "replicas": 3,
            "resources": {"limits": {"memory": None}},
            "service": {"type": "LoadBalancer"},
        }
    ).notes
    for words in (
        "With 3 pods",
        "resources.limits.memory is not set",
        "clients outside of the cluster",
        "uses Sluice's own credentials",
    ):
        assert words in loud
    assert loud.count("WARNING") == 4
