"""The files made from the charts: `make helm` writes them, tests/helm/test_generated.py holds that they are up to date.

- values.schema.json of each chart, from the proxy's settings and from values.yaml.
- tests/helm/golden: what Helm makes of each `ci/*-values.yaml`. The library's sets are rendered in the application of
  examples/kubernetes, because a library alone renders nothing.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from helm.values_schema import values_schema
from tests.support.charts import HELM, LIBRARY, Object, render, with_dependencies
from tests.support.house import ROOT, name

APPLICATION = ROOT / "examples" / "kubernetes" / "python" / "chart"
GOLDEN = ROOT / "tests" / "helm" / "golden"
CHARTS = sorted(file.parent for file in HELM.glob("*/Chart.yaml"))


class ValueSet(NamedTuple):
    """One `ci/*-values.yaml`: the chart that is rendered with it, the values as that chart takes them."""

    name: str
    chart: Path
    values: Object


def value_sets() -> list[ValueSet]:
    """Return the sets of all charts."""
    found = []
    for file in sorted(HELM.glob("*/ci/*-values.yaml")):
        own, values = file.parents[1], yaml.safe_load(file.read_text("utf-8"))
        title = f"{own.name}/{file.name.removesuffix('-values.yaml')}"
        if own == LIBRARY:
            found.append(ValueSet(title, APPLICATION, {"sluice": values}))
        else:
            found.append(ValueSet(title, own, values))
    return found


def golden(found: ValueSet, folder: Path) -> str:
    """Return Helm's manifests of the set, each below its template's name. The folder is for the chart's copy."""
    manifests = render(with_dependencies(found.chart, folder), found.values)
    parts = [f"# {file}\n{text.strip()}\n" for file, text in sorted(manifests.items())]
    return "---\n".join(parts)


def made() -> Iterator[tuple[Path, str]]:
    """Yield every file that is made, and its text."""
    for chart in CHARTS:
        yield chart / "values.schema.json", values_schema(chart)
    for each in value_sets():
        with tempfile.TemporaryDirectory() as folder:
            yield GOLDEN / f"{each.name}.yaml", golden(each, Path(folder))


def main() -> None:
    """Write every file that has changed, and remove golden files that no set has."""
    files = dict(made())
    for file, text in files.items():
        if not file.is_file() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            print(f"wrote {name(file)}")  # noqa: T201 - a command
    for file in GOLDEN.rglob("*.yaml"):
        if file not in files:
            file.unlink()
            print(f"removed {name(file)}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
