"""The JSON Schema of the configuration file, from the types that check it.

- msgspec generates it; the settings of each installed policy are added under its `use`.
- Rules across several settings (ports beyond 65535, names that repeat) are checked by `sluice check` only.
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
    """Return the schema as plain data. `policies` are those of `policies.discovery.available`."""
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
    """Return the schema of `object`: any value. Raises NotImplementedError for other types."""
    if kind is object:
        return {}
    raise NotImplementedError(f"no JSON Schema for {kind}")
