"""The gateway's chart in tests: rendered with a few values, and the objects found by their kind."""

from typing import Any

import yaml

from tests.support.kubernetes.charts import HELM, Object, objects, refusal, render

CHART = HELM / "sluice"
FILE = "sluice.yaml"
SERVER = "orders-sluice.shop.svc"
"""The host of the Service, if nothing else is said."""
BROKERS = {"upstream": {"bootstrap_servers": ["kafka:9092"]}}


def values(config: Object | None = None, **others: object) -> Object:
    """Return values with the least configuration, and these."""
    return {"config": BROKERS | (config or {}), **others}


class Release:
    """The objects and the notes that Helm makes of the chart with these values."""

    def __init__(
        self,
        given: Object,
        *,
        name: str = "orders",
        namespace: str = "shop",
        kube_version: str = "1.33.0",
    ) -> None:
        manifests = render(
            CHART, given, kube_version=kube_version, release=name, namespace=namespace
        )
        self.objects = objects(manifests)
        self.notes = manifests["sluice/templates/NOTES.txt"]

    def all(self, kind: str) -> list[Object]:
        """Return the objects of this kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, suffix: str = "") -> Any:
        """Return the object of this kind whose name ends so; there must be one."""
        (found,) = (each for each in self.all(kind) if each["metadata"]["name"].endswith(suffix))
        return found

    @property
    def settings(self) -> Any:
        """Return the configuration file."""
        (found,) = (each["data"] for each in self.all("ConfigMap") if FILE in each["data"])
        return yaml.safe_load(found[FILE])

    @property
    def workload(self) -> Any:
        """Return the Deployment or StatefulSet."""
        (found,) = self.all("Deployment") + self.all("StatefulSet")
        return found

    @property
    def container(self) -> Any:
        """Return Sluice's container."""
        (found,) = self.workload["spec"]["template"]["spec"]["containers"]
        return found


def refused(config: Object | None = None, **others: object) -> str:
    """Return Helm's words about values that the chart refuses."""
    return refusal(CHART, values(config, **others))
