"""The plain manifests and the kustomize component of examples/kubernetes, made from the charts there.

Labels of Helm are left out: `kubectl` manages these objects.
"""

import copy
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.support.house.house import ROOT
from tests.support.kubernetes.charts import Object, copied, objects, render

EXAMPLES = ROOT / "examples" / "kubernetes"
APPLICATION = EXAMPLES / "python" / "chart"
JAVA_APPLICATION = EXAMPLES / "java" / "chart"
MANIFESTS = EXAMPLES / "manifests"
KUSTOMIZE = EXAMPLES / "kustomize"
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")
BEGIN = "# Made by `make helm` from {source}. For Kubernetes 1.29 or newer.\n"


def plain(chart: Path, release: str, **values: object) -> list[Object]:
    """Return the chart's objects without Helm's labels."""
    found = objects(render(copied(chart), {"sluice": values}, release=release))
    for each in found:
        labels = each["metadata"].get("labels", {})
        each["metadata"]["labels"] = {k: v for k, v in labels.items() if k not in HELM_LABELS}
    return found


def kustomized() -> tuple[Object, Object]:
    """Return what the kustomize example must build: the Deployment and the ConfigMap, under the component's name."""
    deployment, config = plain(APPLICATION, "orders", fullnameOverride="sluice")
    return deployment, config


def without_sidecar(deployment: Object) -> Object:
    """Return the application's own Deployment."""
    own = copy.deepcopy(deployment)
    spec = own["spec"]["template"]["spec"]
    del spec["initContainers"], spec["volumes"]
    spec["containers"][0]["env"].pop(0)
    return own


def made_examples() -> Iterator[tuple[Path, str]]:
    """Yield every file that is made, and its text."""
    for chart, release in ((APPLICATION, "orders"), (JAVA_APPLICATION, "payments")):
        text = yaml_text(*plain(chart, release))
        yield MANIFESTS / f"{release}.yaml", f"{_begin(chart)}{text}"
    deployment, config = kustomized()
    spec = deployment["spec"]["template"]["spec"]
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "any"},
        "spec": {
            "template": {
                "spec": {key: spec[key] for key in ("initContainers", "volumes")},
            }
        },
    }
    bootstrap = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/env/0",
        "value": spec["containers"][0]["env"][0],
    }
    begin = _begin(APPLICATION)
    component = KUSTOMIZE / "component"
    yield KUSTOMIZE / "base" / "orders.yaml", f"{begin}{yaml_text(without_sidecar(deployment))}"
    yield component / "sidecar.yaml", f"{begin}{yaml_text(patch)}"
    yield component / "bootstrap.yaml", f"{begin}{yaml_text([bootstrap])}"
    yield component / "sluice.yaml", config["data"]["sluice.yaml"]


def yaml_text(*documents: object) -> str:
    """Return the documents as YAML; a text of several lines is a block."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120)


def _begin(chart: Path) -> str:
    return BEGIN.format(source=chart.relative_to(ROOT).as_posix())


class _Dumper(yaml.SafeDumper):
    """Lists are indented, and no value has an alias."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - as the base class has it
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
