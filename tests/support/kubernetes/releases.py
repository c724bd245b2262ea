"""A control plane for the tests of charts, Helm before it, and namespaces that admit only restricted pods.

The fixtures are those of tests/integration/conftest.py. They skip without the programs of `make apiserver`.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.kubernetes.chart_files import ValueSet
from tests.support.kubernetes.charts import copied
from tests.support.kubernetes.helm_cli import Helm
from tests.support.kubernetes.kube import (
    ControlPlane,
    KubernetesUnavailableError,
    kubernetes_programs,
)

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
OTHERS = ("kafka", "monitoring")
"""Namespaces that value sets name."""
CRDS = (
    "monitoring.coreos.com_podmonitors.yaml",
    "monitoring.coreos.com_servicemonitors.yaml",
    "monitoring.coreos.com_prometheusrules.yaml",
    "cert-manager.io_certificates.yaml",
)
_NUMBERS = count()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane, with the CRDs of two operators."""
    try:
        programs = kubernetes_programs()
    except KubernetesUnavailableError as error:
        pytest.skip(str(error))
    with ControlPlane(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        plane.define(*CRDS)
        for each in OTHERS:
            plane.api.make_namespace(each)
        yield plane


@pytest.fixture(scope="session")
def helm(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The real Helm."""
    return Helm(plane, tmp_path_factory.mktemp("helm"))


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """A namespace that admits only pods of the Pod Security Standard `restricted`."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return plane.api.make_namespace(f"{words[:56]}-{next(_NUMBERS)}".strip("-"), RESTRICTED)


def prepared(found: ValueSet, folder: Path) -> tuple[Path, Path]:
    """Return the chart with its dependencies, and the set's values as a file."""
    values = folder / "values.yaml"
    values.write_text(json.dumps(found.values))  # JSON is YAML
    return copied(found.chart), values


def kubectl(plane: ControlPlane, namespace: str, *arguments: str | Path) -> str:
    """Run the real kubectl; return what it prints, or raise AssertionError with what it says."""
    common = ("--kubeconfig", plane.kubeconfig, "--namespace", namespace)
    done = subprocess.run(
        [plane.programs / "kubectl", *common, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
    return done.stdout
