"""The plain manifests and the kustomize component are what the charts render, and keep the same rules."""

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.chart_examples import (
    APPLICATION,
    EXAMPLES,
    JAVA_APPLICATION,
    KUSTOMIZE,
    MANIFESTS,
    kustomized,
    plain,
)
from tests.support.kubernetes.charts import KUBERNETES, Object, problems
from tests.support.kubernetes.pods import problems as pod_problems

FIRST_WITH_COMPONENTS = (3, 7)
"""The version of kustomize."""
NEW = [version for version in KUBERNETES if version >= "1.29"]


def read(file: Path) -> list[Object]:
    """Return the objects of a YAML file."""
    return list(yaml.safe_load_all(file.read_text("utf-8")))


def applied(component: Path, deployment: Object) -> Object:
    """Return the Deployment with the component's two patches, merged by Kubernetes' rules: lists by name."""
    found = copy.deepcopy(deployment)
    (sidecar,), ((operation,),) = (
        read(component / "sidecar.yaml"),
        read(component / "bootstrap.yaml"),
    )
    spec = found["spec"]["template"]["spec"]
    for key, items in sidecar["spec"]["template"]["spec"].items():
        names = {each["name"] for each in items}
        spec[key] = items + [each for each in spec.get(key, ()) if each["name"] not in names]
    *path, place = operation["path"].strip("/").split("/")
    target: Any = found
    for step in path:
        target = target[int(step)] if step.isdigit() else target[step]
    assert operation["op"] == "add"
    target.insert(int(place), operation["value"])
    return found


@pytest.mark.parametrize(
    ("chart", "release"), [(APPLICATION, "orders"), (JAVA_APPLICATION, "payments")]
)
def test_the_manifests_are_the_charts(chart: Path, release: str) -> None:
    """The file has the objects that Helm renders, without Helm's labels; each Kubernetes version takes them."""
    found = read(MANIFESTS / f"{release}.yaml")

    assert found == plain(chart, release)
    assert pod_problems(found) == []
    assert [p for version in NEW for each in found for p in problems(each, version)] == []


def test_the_component_makes_what_the_chart_renders() -> None:
    """Both patches on the application alone give the chart's Deployment; the ConfigMap has the chart's text."""
    (base,) = read(KUSTOMIZE / "base" / "orders.yaml")
    deployment, config = kustomized()

    assert "sluice" not in yaml.safe_dump(base)
    assert applied(KUSTOMIZE / "component", base) == deployment
    assert {"sluice.yaml": (KUSTOMIZE / "component" / "sluice.yaml").read_text("utf-8")} == config[
        "data"
    ]


def test_the_component_names_its_files() -> None:
    """The kustomization patches Deployments by both files, and its ConfigMap has the name that the volume mounts."""
    (found,) = read(KUSTOMIZE / "component" / "kustomization.yaml")
    (made,) = found["configMapGenerator"]
    _, config = kustomized()

    assert (found["apiVersion"], found["kind"]) == ("kustomize.config.k8s.io/v1alpha1", "Component")
    assert {each["path"] for each in found["patches"]} == {"sidecar.yaml", "bootstrap.yaml"}
    assert all(each["target"] == {"kind": "Deployment"} for each in found["patches"])
    assert made["name"] == config["metadata"]["name"]
    assert made["options"] == {"disableNameSuffixHash": True}


def test_kustomize_builds_the_same() -> None:
    """The real kustomize makes the chart's Deployment of the example's overlay, and the ConfigMap with its text."""
    built = subprocess.run(
        [*kustomize(), str(KUSTOMIZE / "orders")], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    found = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    deployment, config = kustomized()

    assert found["Deployment"] == deployment
    assert found["ConfigMap"]["data"] == config["data"]
    assert found["ConfigMap"]["metadata"]["name"] == config["metadata"]["name"]
    assert found.keys() == {"Deployment", "ConfigMap"}


def kustomize() -> list[str]:
    """Return the command that builds a kustomization; skip without one that knows components."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if not shutil.which("kubectl"):
        pytest.skip("neither kustomize nor kubectl is installed")
    told = subprocess.run(
        ["kubectl", "version", "--client"], capture_output=True, text=True, check=False
    )
    match = re.search(r"Kustomize Version: v(\d+)\.(\d+)", told.stdout)
    if match is None or (int(match[1]), int(match[2])) < FIRST_WITH_COMPONENTS:
        pytest.skip("the kustomize of this kubectl does not know components")
    return ["kubectl", "kustomize"]


@pytest.mark.parametrize("folder", ["python", "java"])
def test_the_image_is_the_charts(folder: str) -> None:
    """The Dockerfile says how to build the image that the chart's values name; it runs as a user without a name."""
    dockerfile = (EXAMPLES / folder / "Dockerfile").read_text("utf-8")
    values = yaml.safe_load((EXAMPLES / folder / "chart" / "values.yaml").read_text("utf-8"))

    assert dockerfile.startswith(f"# docker build -t {values['image']} .\n")
    assert "\nUSER 65532:65532\n" in dockerfile
