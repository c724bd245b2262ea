"""The JSON Schema of a chart's values: Sluice's own for `config`, Kubernetes' own for its objects, ours for the rest.

- Unknown keys are refused at every depth, except in maps whose keys the user chooses: labels, secrets, the settings of
  a policy that is not built in.
- Draft 7, which every Helm 3 and 4 knows. Helm checks the values below a dependency's name or alias by the dependency's
  schema, so the values of the library are checked in the application's chart too.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

import yaml
from kubernetes_validate import latest_version

from policies.discovery import available
from proxy.config.json_schema import json_schema

if TYPE_CHECKING:
    from pathlib import Path

Schema = dict[str, object]

DRAFT = "http://json-schema.org/draft-07/schema#"
_CORE = "io.k8s.api.core.v1."
_HERE = "#/$defs/"
_TEXTS = frozenset({"$ref", "type", "pattern"})
"""Keywords whose value is a text and decides."""


def values_schema(chart: Path) -> str:
    """Return the text of the chart's values.schema.json.

    Every value of values.yaml must be in `own_values.yaml` of the chart or in `shared_values.yaml`, and the reverse;
    raises ValueError otherwise.
    """
    own = yaml.safe_load((chart / "own_values.yaml").read_text("utf-8")) or {}
    shared = yaml.safe_load((chart.parent / "shared_values.yaml").read_text("utf-8"))
    described = comments((chart / "values.yaml").read_text("utf-8"))
    kinds: dict[str, Schema] = {}
    properties = {
        name: _resolved(schema, kinds) for name, schema in sorted({**shared, **own}.items())
    }
    if properties.keys() != described.keys():
        odd = ", ".join(sorted(properties.keys() ^ described.keys()))
        raise ValueError(f"{chart.name}: in values.yaml or in its schema, not in both: {odd}")
    for name, schema in properties.items():
        properties[name] = {"description": " ".join(described[name].split()), **schema}
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    # Helm puts these beside the chart's own values.
    for name in ("global", *(each["name"] for each in metadata.get("dependencies", ()))):
        properties[name] = {"type": "object"}
    schema: Schema = {
        "$schema": DRAFT,
        "title": f"Values of the chart {chart.name}",
        "type": "object",
        "additionalProperties": False,
        "required": ["config"],
        "properties": properties,
        "$defs": {**_proxy_parts(), **kinds},
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def comments(values: str) -> dict[str, str]:
    """Return the comment before each top-level key of a values.yaml; without one, that of the key on the line above."""
    found: dict[str, str] = {}
    said: list[str] = []
    last = ""
    for line in values.splitlines():
        if line.startswith("#"):
            said.append(line.removeprefix("#").strip())
        elif key := re.match(r"(\w+):", line):
            last = found[key[1]] = "\n".join(said) or last
            said = []
        elif not line:
            last = ""
            said = []
    return found


def _resolved(schema: object, kinds: dict[str, Schema]) -> Schema:
    """Return the schema with `kubernetes:` and `proxy:` replaced by references; put Kubernetes' parts into `kinds`."""
    if not isinstance(schema, dict):
        raise TypeError(f"{schema!r} is not a schema")
    if kind := schema.get("kubernetes"):
        whole = str(kind) if "." in str(kind) else f"{_CORE}{kind}"
        _collect(whole, kinds)
        return {"$ref": f"{_HERE}{whole}"}
    if "proxy" in schema:
        return {"$ref": f"{_HERE}Config"}
    found = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = _resolved(found[name], kinds)
    if "properties" in found:
        found["properties"] = {k: _resolved(v, kinds) for k, v in found["properties"].items()}
    return found


def _collect(name: str, kinds: dict[str, Schema]) -> None:
    if name not in kinds:
        kinds[name] = cast("Schema", _plain(_kubernetes()[name]))
        for each in re.findall(r'"#/\$defs/([^"]+)"', json.dumps(kinds[name])):
            _collect(each, kinds)


def _plain(schema: object) -> object:
    """Return the schema without what does not decide: descriptions, defaults and Kubernetes' extensions."""
    if isinstance(schema, dict):
        return {
            key: _plain(value)
            for key, value in schema.items()
            if key in _TEXTS or not (isinstance(value, str) or key.startswith("x-kubernetes-"))
        }
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


@cache
def _kubernetes() -> dict[str, Schema]:
    """Return the strict schemas of the newest Kubernetes that the installed package has."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema"
    text = (folder / f"v{latest_version()}-local-strict" / "_definitions.json").read_text("utf-8")
    return cast("dict[str, Schema]", json.loads(text)["$defs"])


def _proxy_parts() -> dict[str, Schema]:
    return cast("dict[str, Schema]", json_schema(available())["$defs"])
