"""A real kube-apiserver with its controllers takes what the charts render: install, upgrade, roll back, uninstall.

Skipped without the programs of `make apiserver`.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.kafka.load import await_that
from tests.support.kubernetes.chart_examples import EXAMPLES, JAVA_APPLICATION
from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.charts import HELM
from tests.support.kubernetes.helm_cli import Helm
from tests.support.kubernetes.kube import ControlPlane
from tests.support.kubernetes.kube_api import Object, objects
from tests.support.kubernetes.releases import kubectl, prepared

pytestmark = pytest.mark.slow

GATEWAY = HELM / "sluice"
ACCOUNTS = ("kafka-gateway",)
"""Service accounts that value sets name."""
SETS = [*value_sets(), ValueSet("java/default", JAVA_APPLICATION, {})]
GATEWAY_SETS = [each for each in SETS if each.chart == GATEWAY]
(DEFAULT,) = (each for each in GATEWAY_SETS if each.name == "sluice/default")


@pytest.mark.parametrize("found", SETS, ids=lambda found: found.name)
def test_every_value_set_is_installed_and_uninstalled(
    plane: ControlPlane, helm: Helm, namespace: str, found: ValueSet, tmp_path: Path
) -> None:
    """Helm installs the set, each object is valid to the letter, each pod is admitted; nothing stays afterwards."""
    chart, values = prepared(found, tmp_path)

    for each in ACCOUNTS:
        plane.api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": each}}, namespace
        )

    printed = helm.run("install", "orders", chart, "--namespace", namespace, "--values", values)

    release = helm.release("orders", namespace)
    assert release["info"]["status"] == "deployed"
    made = objects(release["manifest"])
    for each in made:
        answer = plane.api.try_apply(each, namespace, dry_run=True)
        assert (answer.status, answer.warnings) == (200, ()), answer.message
    for each in made:
        if "template" in each.get("spec", {}):
            path = plane.api.path(each, namespace)
            await_that(lambda path=path: has_its_pods(plane.api.get(path)), f"the pods of {path}")
    if found.chart == GATEWAY:
        check_notes(printed.partition("NOTES:")[2], made)
    for hook in release.get("hooks") or ():
        for each in objects(hook["manifest"]):
            answer = plane.api.try_create(each, namespace, dry_run=True)
            assert (answer.status, answer.warnings) == (201, ()), answer.message

    helm.run("uninstall", "orders", "--namespace", namespace)
    for each in made:
        path = plane.api.path(each, namespace)
        await_that(lambda path=path: plane.api.ask("GET", path).status == 404, f"no {path}")


def is_observed(workload: Object) -> bool:
    """Return whether its controller has seen its latest state."""
    return workload["status"].get("observedGeneration") == workload["metadata"]["generation"]


def check_notes(notes: str, made: list[Object]) -> None:
    """The bootstrap address and each port of the table that Helm printed are ports of a Service."""
    services = [each for each in made if each["kind"] == "Service"]
    ports = {port["port"] for each in services for port in each["spec"]["ports"]}
    bootstrap = re.search(r"bootstrap\.servers=(\S+):(\d+)", notes)
    assert bootstrap, notes
    table = {int(port) for port in re.findall(r"^\d+ +(\d+)$", notes, re.MULTILINE)}
    assert table | {int(bootstrap[2])} <= ports


def has_its_pods(workload: Object) -> bool:
    """Return whether as many pods were admitted as are asked for."""
    return workload.get("status", {}).get("replicas") == workload["spec"]["replicas"]


def test_a_pod_with_capabilities_is_refused(
    plane: ControlPlane, helm: Helm, namespace: str, tmp_path: Path
) -> None:
    """The namespace refuses the pod itself; a Deployment of such pods is accepted with a warning."""
    chart, values = prepared(DEFAULT, tmp_path)
    rendered = objects(helm.run("template", "orders", chart, "--values", values))
    (deployment,) = (each for each in rendered if each["kind"] == "Deployment")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "posted"}}
    pod["spec"] = deployment["spec"]["template"]["spec"]
    del pod["spec"]["serviceAccountName"]
    assert plane.api.try_create(pod, namespace, dry_run=True).status == 201
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]

    answer = plane.api.try_create(pod, namespace, dry_run=True)

    assert answer.status == 403
    assert 'unrestricted capabilities (container "sluice" must set' in answer.message
    accepted = plane.api.try_create(deployment, namespace, dry_run=True)
    assert accepted.status == 201
    assert "would violate PodSecurity" in " ".join(accepted.warnings)


def test_every_upgrade_between_value_sets_is_accepted(
    plane: ControlPlane, helm: Helm, namespace: str, tmp_path: Path
) -> None:
    """One release becomes each set after the other, and the first again: nothing changes that Kubernetes fixes."""
    sets = []
    for found in GATEWAY_SETS:
        folder = tmp_path / found.name
        folder.mkdir(parents=True)
        sets.append((found, *prepared(found, folder)))
    order = [*sets, sets[0]]
    first = ("--namespace", namespace, "--values", order[0][2])
    helm.run("install", "orders", order[0][1], *first)

    for (before, _, _), (after, chart, values) in pairwise(order):
        to = ("--namespace", namespace, "--values", values)
        if before.values.get("autoscaling", {}).get("enabled"):
            to = (*to, "--force-conflicts")  # the autoscaler may have set the number of pods by now
        done = helm.try_run("upgrade", "orders", chart, *to)
        assert done.returncode == 0, f"{before.name} -> {after.name}: {done.stderr}"

    assert helm.release("orders", namespace)["version"] == len(order)


def test_autoscaling_begins_with_the_pods_that_there_are(
    plane: ControlPlane, helm: Helm, namespace: str, tmp_path: Path
) -> None:
    """An upgrade that turns autoscaling on removes no pod, and a later one keeps the autoscaler's number."""
    chart, values = prepared(DEFAULT, tmp_path)
    common = ("orders", chart, "--namespace", namespace, "--values", values)
    scaled = (*common, "--set", "autoscaling.enabled=true", "--set", "autoscaling.minReplicas=3")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/orders-sluice"
    helm.run("install", *common, "--set", "replicas=3")
    await_that(lambda: has_its_pods(plane.api.get(path)), "three pods")

    helm.run("upgrade", *scaled)
    await_that(lambda: is_observed(plane.api.get(path)), "the controller")
    plane.api.ask(
        "PATCH", f"{path}/scale", {"spec": {"replicas": 5}}, "application/merge-patch+json"
    )
    helm.run("upgrade", *scaled)

    await_that(lambda: plane.api.get(path)["status"].get("replicas") == 5, "five pods")
    events = plane.api.items(f"/api/v1/namespaces/{namespace}/events")
    assert not [each["message"] for each in events if "Scaled down" in each.get("message", "")]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--filename", str(each)] for each in sorted(EXAMPLES.glob("manifests/*.yaml"))),
        ["--kustomize", str(EXAMPLES / "kustomize" / "orders")],
    ],
    ids=lambda arguments: arguments[1].rpartition("/")[2],
)
def test_the_plain_manifests_are_applied(
    plane: ControlPlane, namespace: str, arguments: list[str]
) -> None:
    """Kubectl applies them, twice without a change, and their pods are admitted."""
    kubectl(plane, namespace, "apply", "--server-side", *arguments)

    again = kubectl(plane, namespace, "apply", "--server-side", "--output", "json", *arguments)

    found = json.loads(again)
    for each in found.get("items", [found]):
        assert each["metadata"].get("generation", 1) == 1
        if each["kind"] == "Deployment":
            path = plane.api.path(each, namespace)
            await_that(lambda path=path: has_its_pods(plane.api.get(path)), f"the pods of {path}")


def test_a_rollback_restores_the_configuration(
    plane: ControlPlane, helm: Helm, namespace: str, tmp_path: Path
) -> None:
    """After `helm rollback` the ConfigMap is that of the first revision, and the history tells all three."""
    chart, values = prepared(DEFAULT, tmp_path)
    common = ("--namespace", namespace, "--values", values)
    path = f"/api/v1/namespaces/{namespace}/configmaps/orders-sluice"
    helm.run("install", "orders", chart, *common)
    before = plane.api.get(path)["data"]
    helm.run("upgrade", "orders", chart, *common, "--set", "config.log.level=debug")
    assert plane.api.get(path)["data"] != before

    helm.run("rollback", "orders", "1", "--namespace", namespace)

    assert plane.api.get(path)["data"] == before
    history = json.loads(
        helm.run("history", "orders", "--namespace", namespace, "--output", "json")
    )
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]


def test_a_bad_value_installs_nothing(
    plane: ControlPlane, helm: Helm, namespace: str, tmp_path: Path
) -> None:
    """Helm refuses it with the path of its key, and no object and no release is there."""
    chart, values = prepared(DEFAULT, tmp_path)

    done = helm.try_run(
        *("install", "orders", chart, "--namespace", namespace, "--values", values),
        *("--set", "config.purgatory.silence=1"),
    )

    assert done.returncode == 1
    assert "/config/purgatory" in done.stderr
    assert plane.api.items(f"/apis/apps/v1/namespaces/{namespace}/deployments") == []
    assert json.loads(helm.run("list", "--namespace", namespace, "--output", "json")) == []
