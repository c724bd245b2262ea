"""The JSON Schema of the configuration file, from the same types that check it.

- msgspec writes it; here each installed policy's own settings are added under its `use`.
- What only a look across several settings can tell (ports that do not exist, names that repeat)
  is left to `sluice check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.config import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.api import Policy

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"


def json_schema(policies: Mapping[str, type[Policy]]) -> dict[str, object]:
    """The schema as plain data; `policies` as `policies.registry.available` gives them."""
    kinds = [Config, *(kind.Config for kind in policies.values())]
    (top, *settings), parts = msgspec.json.schema_components(
        kinds, ref_template=_REF, schema_hook=_anything
    )
    parts["PolicyEntry"]["allOf"] = [
        {
            "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
            "then": {"properties": {"config": schema}},
        }
        for name, schema in zip(policies, settings, strict=True)
    ]
    return {"$schema": DIALECT, "title": "Sluice", **top, "$defs": parts}


def _anything(kind: type) -> dict[str, object]:
    """`object`: a policy's settings are its own."""
    if kind is object:
        return {}
    raise NotImplementedError(f"no JSON Schema for {kind}")
