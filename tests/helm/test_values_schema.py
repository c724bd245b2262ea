"""The schema of the values: the proxy's own where the proxy reads, closed everywhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from helm.values_schema import values_schema
from tests.support.kubernetes.chart_files import CHARTS
from tests.support.kubernetes.charts import LIBRARY

OPEN = {
    "/global",
    "/PolicyEntry/config",  # the settings of a policy that is not built in; those of the others are closed
    "/UpstreamSasl/token_options",  # the settings of a plug-in of tokens
    # Kubernetes' own objects
    *(
        "/extraEnv",
        "/extraVolumes",
        "/extraVolumeMounts",
        "/securityContext",
        "/podSecurityContext",
    ),
    *("/resources/limits", "/resources/requests"),
    *("/probes/startup", "/probes/liveness", "/probes/readiness"),
    *("/affinity", "/tolerations", "/imagePullSecrets", "/service/spec", "/autoscaling/behavior"),
    "/topologySpreadConstraints/labelSelector",
    *("/networkPolicy/clients", "/networkPolicy/scrapers", "/networkPolicy/egress"),
    *("/networkPolicy/brokers/podSelector", "/networkPolicy/brokers/alsoFrom"),
}
"""Objects with keys that the chart does not know, below `properties` or `$defs`."""


def schema_of(chart: Path) -> dict[str, object]:
    """Return the chart's schema as it is shipped."""
    found: dict[str, object] = json.loads((chart / "values.schema.json").read_text("utf-8"))
    return found


def open_objects(schema: object, path: str = "") -> Iterator[str]:
    """Yield the path of every object schema that allows unknown keys with any value."""
    if isinstance(schema, list):
        for each in schema:
            yield from open_objects(each, path)
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type", ())
    if (
        "object" in ([kinds] if isinstance(kinds, str) else kinds)
        and schema.get("additionalProperties", True) is not False
    ):
        more = schema.get("additionalProperties")
        if not isinstance(more, dict) or not more.keys() & {"type", "$ref", "oneOf"}:
            yield path
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            for name, each in value.items():
                yield from open_objects(each, f"{path}/{name}")
        elif key not in {"default", "examples", "enum", "const"}:
            yield from open_objects(value, path)


def test_they_are_closed() -> None:
    """No object has unknown keys but those that the user names freely; both are valid schemas of draft 7."""
    schemas = [schema_of(chart) for chart in CHARTS]

    for schema in schemas:
        Draft7Validator.check_schema(schema)
    assert {path for schema in schemas for path in open_objects(schema)} == OPEN


def test_a_value_without_a_schema_is_found(tmp_path: Path) -> None:
    """A key of values.yaml that has no schema stops the generator."""
    chart = tmp_path / "sluice-sidecar"
    chart.mkdir()
    for file in ("Chart.yaml", "own_values.yaml"):
        (chart / file).write_bytes((LIBRARY / file).read_bytes())
    (tmp_path / "shared_values.yaml").write_bytes(
        (LIBRARY.parent / "shared_values.yaml").read_bytes()
    )
    values = (LIBRARY / "values.yaml").read_text("utf-8")
    (chart / "values.yaml").write_text(f"{values}\nforgotten: 1\n", "utf-8")

    with pytest.raises(ValueError, match="not in both: forgotten"):
        values_schema(chart)
