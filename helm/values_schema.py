"""The JSON Schema of a chart's values: Sluice's own for `config`, ours for the rest.

- Unknown keys are refused at every depth, except in maps whose keys the user chooses (labels, secrets, the settings of
  a policy that is not built in) and in Kubernetes' own objects, which the cluster checks.
- Draft 7, which every Helm 3 and 4 knows. Helm checks the values below a dependency's name or alias by the dependency's
  schema, so the values of the library are checked in the application's chart too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import yaml

from policies.discovery import available
from proxy.config.json_schema import json_schema

if TYPE_CHECKING:
    from pathlib import Path

Schema = dict[str, object]

DRAFT = "http://json-schema.org/draft-07/schema#"
WIDTH = 110


def values_schema(chart: Path) -> str:
    """Return the text of the chart's values.schema.json.

    Every value of values.yaml must be in `own_values.yaml` of the chart or in `shared_values.yaml`, and the reverse;
    raises ValueError otherwise.
    """
    own = yaml.safe_load((chart / "own_values.yaml").read_text("utf-8")) or {}
    shared = yaml.safe_load((chart.parent / "shared_values.yaml").read_text("utf-8"))
    described = comments((chart / "values.yaml").read_text("utf-8"))
    properties: dict[str, Schema] = dict(sorted({**shared, **own}.items()))
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
        "$defs": json_schema(available())["$defs"],
    }
    return f"{_text(schema)}\n"


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


def _text(value: object, indent: str = "") -> str:
    """Return the value as JSON; what fits stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not (value and isinstance(value, (dict, list))):
        return line
    inner = f"{indent} "
    if isinstance(value, list):
        parts = [_text(each, inner) for each in value]
    else:
        parts = [f"{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
    begin, end = "[]" if isinstance(value, list) else "{}"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"
