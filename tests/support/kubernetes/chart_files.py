"""The files made from the charts: `make helm` writes them, tests/helm/test_generated.py holds that they are up to date.

- values.schema.json of each chart, from the proxy's settings and from values.yaml; the table of values in its README.
- tests/helm/golden: what Helm makes of three `ci/*-values.yaml`; the others are checked by schemas and rules only. The
  library's sets are rendered in the application of examples/kubernetes, because a library alone renders nothing.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import helm_python
import yaml

from helm.values_schema import values_schema
from helm.values_table import readme
from tests.support.house.house import ROOT, name
from tests.support.kubernetes.chart_examples import APPLICATION, made_examples
from tests.support.kubernetes.charts import HELM, LIBRARY, Object, copied, objects, render

GOLDEN = ROOT / "tests" / "helm" / "golden"
GOLDENS = ("sluice-sidecar/default", "sluice/default", "sluice/everything")
COPIES = ("grafanadashboard.yaml", "prometheusrule.yaml")
"""Templates that hold a file of examples/monitoring."""
CHARTS = sorted(file.parent for file in HELM.glob("*/Chart.yaml"))


class ValueSet(NamedTuple):
    """One `ci/*-values.yaml`: the chart that is rendered with it, the values as that chart takes them."""

    name: str
    chart: Path
    values: Object

    def manifests(self, kube_version: str = "1.33.0") -> dict[str, str]:
        """Return Helm's manifests by template."""
        return render(copied(self.chart), self.values, kube_version=kube_version)

    def objects(self, kube_version: str = "1.33.0") -> list[Object]:
        """Return the Kubernetes objects."""
        return objects(self.manifests(kube_version))


@cache
def value_sets(*charts: Path) -> tuple[ValueSet, ...]:
    """Return the sets of these charts, by default of all."""
    found = []
    for file in sorted(HELM.glob("*/ci/*-values.yaml")):
        own, values = file.parents[1], yaml.safe_load(file.read_text("utf-8"))
        title = f"{own.name}/{file.name.removesuffix('-values.yaml')}"
        if own == LIBRARY:
            found.append(ValueSet(title, APPLICATION, {"sluice": values}))
        else:
            found.append(ValueSet(title, own, values))
    return tuple(
        each for each in found if not charts or each.name.split("/")[0] in {c.name for c in charts}
    )


def golden(found: ValueSet) -> str:
    """Return Helm's manifests of the set, each below its template's name, those with a copied file left out."""
    parts = [
        f"# {file}\n{text.strip()}\n"
        for file, text in sorted(found.manifests().items())
        if not file.endswith(COPIES)
    ]
    return "---\n".join(parts)


def made() -> Iterator[tuple[Path, str]]:
    """Yield every file that is made, and its text."""
    for chart in CHARTS:
        yield chart / "values.schema.json", values_schema(chart)
        yield chart / "README.md", readme(chart)
    for each in value_sets():
        if each.name in GOLDENS:
            yield GOLDEN / f"{each.name}.yaml", golden(each)
    yield from made_examples()


def packages(folder: Path) -> list[Path]:
    """Write the archive of each chart into the folder, which `helm install` takes; return the archives."""
    folder.mkdir(exist_ok=True)
    return [Path(helm_python.package(chart, destination=folder)) for chart in CHARTS]


def main() -> None:
    """Write every file that has changed, remove golden files that no set has, and write the archives."""
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
    for archive in packages(ROOT / "dist"):
        print(f"wrote {name(archive)}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
