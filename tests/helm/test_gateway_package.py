"""The gateway's chart as users get it: from a checkout or as an archive, without a network."""

from pathlib import Path

import helm_python
import pytest

from tests.support.house.house import ROOT
from tests.support.kubernetes.charts import metadata, render
from tests.support.kubernetes.gateway import CHART, values


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `helm package` makes of the checkout as it is."""
    return Path(helm_python.package(CHART, destination=tmp_path_factory.mktemp("package")))


def test_a_checkout_can_be_installed_as_it_is() -> None:
    """Nothing has to be fetched first: the chart has no dependencies, and its links lead to files of the project."""
    assert "dependencies" not in metadata(CHART)
    for each in CHART.rglob("*"):
        if each.is_symlink():
            assert not each.readlink().is_absolute()
            assert each.resolve(strict=True).is_relative_to(ROOT)
    assert render(CHART, values())


def test_the_archive_is_whole(package: Path, tmp_path: Path) -> None:
    """It renders the same manifests as the checkout, with the alerts and the dashboard, and has no links."""
    given = values(
        prometheusRule={"enabled": True},
        grafanaDashboard={"enabled": True},
        certificate={"enabled": True, "issuerRef": {"name": "ca"}},
    )
    helm_python.expand(tmp_path, package)

    assert render(package, given) == render(CHART, given)
    assert not [each for each in (tmp_path / "sluice").rglob("*") if each.is_symlink()]


def test_the_chart_has_the_version_of_the_library() -> None:
    """Their templates are the same files, and the image has the same version."""
    ours, library = metadata(CHART), metadata(CHART.parent / "sluice-sidecar")

    assert (ours["version"], ours["appVersion"]) == (library["version"], library["appVersion"])
