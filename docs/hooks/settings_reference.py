"""The table of all settings, from the types that check them."""

from __future__ import annotations

from operator import attrgetter

import msgspec
from msgspec import inspect

from proxy.config import Config
from proxy.config.sources import load, variables

UPSTREAM = {"upstream.bootstrap_servers": ("kafka:9092", "--upstream")}
DEPENDS = {
    "upstream.bootstrap_servers": "required",
    "listen.advertised_host": "`listen.address`",
    "usage_log.instance": "the host's name",
}
"""Settings whose default is not a fixed value."""
UNBOUNDED = 2**31 - 1
"""An upper bound that only says how large the number may be in a program."""


def shown(value: object) -> str:
    """Return a default as a reader writes it in the YAML file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "none"


def allowed(kind: inspect.Type) -> str:
    """Return which values a type takes: its range, its names, or its kind in one word."""
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(map(str, kind.values))
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        bounded = kind.le is not None and kind.le < UNBOUNDED
        return f"{kind.ge} to {kind.le}" if bounded else f"from {kind.ge}"
    if isinstance(kind, inspect.BoolType):
        return "true, false"
    return "a list" if isinstance(kind, inspect.VarTupleType) else "text"


def fields() -> dict[str, inspect.Type]:
    """Return the type of every setting with its metadata, by key path."""
    found: dict[str, inspect.Type] = {}
    for section in msgspec.structs.fields(Config):
        info = inspect.type_info(section.type)
        bare = info.type if isinstance(info, inspect.Metadata) else info
        if isinstance(bare, inspect.StructType):
            found |= {f"{section.name}.{each.name}": each.type for each in bare.fields}
        else:
            found[section.name] = info
    return found


def settings_reference() -> str:
    """Return a table for each section: key, default, allowed values, meaning."""
    config = load(None, {}, UPSTREAM).config
    types = fields()
    rows: dict[str, list[str]] = {}
    for variable in variables().values():
        info = types[variable.path]
        kind, extra = (
            (info.type, info.extra_json_schema or {})
            if isinstance(info, inspect.Metadata)
            else (info, {})
        )
        default = DEPENDS.get(variable.path) or shown(attrgetter(variable.path)(config))
        section = variable.path.partition(".")[0] if "." in variable.path else "The chain"
        meaning = str(extra.get("description", "")).replace("|", "\\|")
        rows.setdefault(section, []).append(
            f"| `{variable.path}` | {default} | {allowed(kind)} | {meaning} |"
        )
    head = ["| key | default | values | meaning |", "|---|---|---|---|"]
    return "\n".join("\n".join([f"## {name}\n", *head, *lines, ""]) for name, lines in rows.items())
