"""Every pod that a chart makes is safe and complete; and the rules that say so find what is wrong."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.charts import KUBERNETES, NATIVE_FROM, problems
from tests.support.kubernetes.pods import pods
from tests.support.kubernetes.pods import problems as pod_problems

SETS = value_sets()
SUPPORTED = [v for v in KUBERNETES if tuple(map(int, v.split(".")[:2])) >= NATIVE_FROM]
# The oldest lacks fields, the newest has lost some; the second is the first with another preStop hook.
TRIED = [*SUPPORTED[:2], SUPPORTED[-1]]
(ONE,) = (each for each in SETS if each.name == "sluice-sidecar/custody")


@pytest.mark.parametrize("values", SETS, ids=lambda each: each.name)
def test_every_pod_keeps_the_rules(values: ValueSet) -> None:
    """Restricted pod security for each container, probes, resources, a pinned image, no dangling reference."""
    found = values.objects()

    assert pods(found)
    assert pod_problems(found) == []


@pytest.mark.parametrize("version", TRIED)
def test_every_object_fits_the_schema(version: str) -> None:
    """No value set makes a field or a type that this Kubernetes version does not know (custom resources aside)."""
    found = [
        f"{values.name}: {problem}"
        for values in SETS
        for each in values.objects(version)
        if each["apiVersion"].partition("/")[0] not in {"monitoring.coreos.com", "cert-manager.io"}
        for problem in problems(each, version)
    ]

    assert found == []


def _drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda container: container.pop(key)


def _put(*path: str, value: object) -> Callable[[dict[str, Any]], object]:
    def change(container: dict[str, Any]) -> None:
        for key in path[:-1]:
            container = container.setdefault(key, {})
        container[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop("securityContext"), "seccompProfile"),
        (_put("securityContext", "readOnlyRootFilesystem", value=False), "readOnlyRoot"),
        (_put("securityContext", "runAsUser", value=0), "runAsUser"),
        (_put("securityContext", "capabilities", value={"drop": ["NET_RAW"]}), "capabilities"),
        (_put("ports", value=[{"name": "sluice-admin", "hostPort": 1}]), "hostPort"),
        (_put("ports", value=[]), "startupProbe of port sluice-admin"),
        (_drop("readinessProbe"), "no readinessProbe"),
        (_drop("resources"), "no memory limit"),
        (_put("resources", "limits", "cpu", value=1), "a CPU limit"),
        (_put("image", value="sluice:latest"), "image sluice:latest"),
        (_put("image", value="images.example.com:5000/sluice"), "image images"),
        (_put("lifecycle", "preStop", value={}), "preStop"),
        (_drop("volumeMounts"), "volumes"),
        (_put("name", value="orders"), "containers"),
        (lambda each: each["volumeMounts"][0].update(name="x"), "volumes"),
        (lambda each: each["volumeMounts"][0].update(subPath="x"), "subPath"),
        (lambda each: each["volumeMounts"][0].update(mountPath="/tmp"), "two volumes"),  # noqa: S108 - of a container
        (
            lambda each: each["env"][0]["valueFrom"]["resourceFieldRef"].update(containerName="x"),
            "x",
        ),
    ],
)
def test_the_rules_find_a_fault(change: Callable[[dict[str, Any]], object], words: str) -> None:
    """A container with one fault has a problem that names it."""
    found = copy.deepcopy(ONE.objects())
    change(pods(found)[0].proxy())

    assert any(words in each for each in pod_problems(found)), pod_problems(found)


def test_the_rules_find_faults_of_the_pod() -> None:
    """A host's folder, the host's network and a ConfigMap that is not there are found."""
    found = copy.deepcopy(ONE.objects())
    spec = pods(found)[0].spec
    spec["hostNetwork"] = True
    spec["volumes"][0]["configMap"]["name"] = "other"
    spec["volumes"][1]["hostPath"] = spec["volumes"][1].pop("emptyDir")

    text = "\n".join(pod_problems(found))
    assert "hostNetwork" in text
    assert "no ConfigMap other" in text
    assert "hostPath" in text
