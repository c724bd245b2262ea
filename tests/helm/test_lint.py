"""The charts as Helm's own tools see them."""

import shutil
from pathlib import Path

import helm_python
import pytest
import yaml

from tests.support.house.house import ROOT
from tests.support.kubernetes.chart_examples import APPLICATION
from tests.support.kubernetes.chart_files import CHARTS, ValueSet, value_sets
from tests.support.kubernetes.charts import LIBRARY, copied, lint, render

SETS = value_sets()


@pytest.mark.parametrize("values", SETS, ids=lambda each: each.name)
def test_lint_is_silent(values: ValueSet) -> None:
    """`helm lint --strict` has no warning, with each set of values, with the dependencies."""
    assert lint(copied(values.chart), values.values) == []


def test_the_library_alone_is_clean() -> None:
    """The library passes `helm lint --strict` with the least values; without brokers its schema refuses it."""
    values = yaml.safe_load((LIBRARY / "ci" / "default-values.yaml").read_text("utf-8"))

    assert lint(LIBRARY, values) == []
    assert any("missing property 'upstream'" in each for each in lint(LIBRARY))


def test_helm_fetches_the_dependencies_itself(tmp_path: Path) -> None:
    """`helm dependency update` in a checkout finds the library, and the same manifests come out."""
    for folder in ("helm", "examples/kubernetes"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    chart = tmp_path / APPLICATION.relative_to(ROOT)

    helm_python.dependency_update(chart)

    assert [each["name"] for each in helm_python.dependency_list(chart)] == ["sluice-sidecar"]
    assert render(chart) == render(copied(APPLICATION))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda each: each.name)
def test_a_package_holds_what_users_need(chart: Path, tmp_path: Path) -> None:
    """The archive has the schema, the table of values and the templates, and nothing that only the tests need."""
    archive = helm_python.package(copied(chart), destination=tmp_path)
    helm_python.expand(tmp_path, archive)
    packed = {
        file.relative_to(tmp_path / chart.name).parts[0]
        for file in (tmp_path / chart.name).rglob("*")
        if file.is_file()
    }

    needed = {"Chart.yaml", "README.md", "templates", "values.schema.json", "values.yaml"}
    assert needed <= packed <= needed | {"charts", "files", ".helmignore"}
