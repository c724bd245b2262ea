"""Helm's real engine for the tests: charts with their dependencies, rendered, linted, and refused.

Also Kubernetes' schemas by version. Nothing is installed in a cluster.
"""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml
from helm_python import _native
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.support.house.house import ROOT

HELM = ROOT / "helm"
LIBRARY = HELM / "sluice-sidecar"
KUBERNETES = list(dict.fromkeys(kubernetes_validate.utils.all_versions()))
"""The versions with schemas, oldest first: 1.25.0, ..."""
NATIVE_FROM = (1, 29)

Object = dict[str, Any]


def with_dependencies(chart: Path, folder: Path) -> Path:
    """Copy the chart into the folder, with its file:// dependencies in `charts/`; return the copy.

    `helm dependency update` does the same, but writes into the tree.
    """
    copy = folder / chart.name
    shutil.copytree(chart, copy, ignore=shutil.ignore_patterns("charts", "Chart.lock"))
    for each in metadata(chart).get("dependencies", ()):
        source = chart / each["repository"].removeprefix("file://")
        with_dependencies(source.resolve(), copy / "charts")
    return copy


@cache
def copied(chart: Path) -> Path:
    """Return a copy of the chart that holds its dependencies; it lasts as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="charts-")
    atexit.register(folder.cleanup)
    return with_dependencies(chart, Path(folder.name))


def metadata(chart: Path) -> Object:
    """Return Chart.yaml."""
    return yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))


def render(
    chart: Path,
    values: Object | None = None,
    *,
    kube_version: str = "1.33.0",
    release: str = "orders",
    namespace: str = "shop",
    api_versions: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return the manifests by template. Raises helm_python.HelmError with Helm's words if the values are refused."""
    options = {
        "name": release,
        "namespace": namespace,
        "kube_version": kube_version,
        "api_versions": api_versions,
    }
    with helm_python.Chart.load(chart) as loaded:
        # `Chart.render` has no parameter for the version of Kubernetes, the function below it has.
        text = _native.call_string(
            "helm_render", loaded._raw(), json.dumps(values or {}), json.dumps(options)
        )
    return {name: text for name, text in json.loads(text).items() if text.strip()}


def objects(manifests: dict[str, str]) -> list[Object]:
    """Return the Kubernetes objects of rendered manifests."""
    texts = [text for name, text in manifests.items() if not name.endswith("NOTES.txt")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def refusal(chart: Path, values: Object) -> str:
    """Return Helm's words about values that it refuses. Fails if it does not."""
    try:
        render(chart, values)
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError(f"not refused: {values}")


def lint(chart: Path, values: Object | None = None, kube_version: str = "v1.33.0") -> list[str]:
    """Return what `helm lint --strict --with-subcharts` reports above the level of information."""
    report = helm_python.lint(
        chart, values, strict=True, with_subcharts=True, kube_version=kube_version
    )
    loud = [each["error"] for each in report["messages"] if each["severity"] > 1]
    return loud + list(report["errors"])


def problems(found: Object, version: str) -> list[str]:
    """Return what the schema of this Kubernetes version says about an object; unknown fields are problems."""
    group = found["apiVersion"].split("/")
    group[0] = group[0].partition(".")[0]
    validator = _validator(f"{found['kind'].lower()}-{'-'.join(group)}", version)
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(found)]


@cache
def _validator(kind: str, version: str) -> Draft202012Validator:
    folder = _schemas() / f"v{version}-local-strict"
    schema = json.loads((folder / f"{kind}.json").read_text("utf-8"))
    return Draft202012Validator(
        schema, registry=Resource.from_contents(schema) @ _registry(version)
    )


@cache
def _registry(version: str) -> Registry[Any]:
    file = _schemas() / f"v{version}-local-strict" / "_definitions.json"
    return Resource.from_contents(json.loads(file.read_text("utf-8"))) @ Registry()


def _schemas() -> Path:
    return Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
