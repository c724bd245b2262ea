"""The table of all settings, from the types that check them."""

from __future__ import annotations

from operator import attrgetter

import msgspec
from msgspec import inspect

from proxy.config import Config
from proxy.config.sources import load, variables
from proxy.config.values import INT64_MAX
from proxy.dynamic_config import LIVE_SETTINGS

UPSTREAM = {"upstream.bootstrap_servers": ("kafka:9092", "--upstream")}
DEPENDS = {
    "upstream.bootstrap_servers": "required",
    "listen.advertised_host": "`listen.address`",
    "usage_log.instance": "the host's name",
}
"""Settings whose default is not a fixed value."""


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
    """Return which values a type takes: a range with both ends, names, or the kind in one word."""
    match kind:
        case inspect.Metadata(type=inner):
            return allowed(inner)
        case inspect.LiteralType(values=values):
            return ", ".join(map(str, values))
        case inspect.IntType(ge=low, le=top) | inspect.FloatType(ge=low, le=top):
            return f"{low}..{'' if top in (None, INT64_MAX) else top}"
        case inspect.BoolType():
            return "true, false"
        case inspect.VarTupleType(item_type=item):
            return f"list of {allowed(item)}"
        case inspect.UnionType(types=types):
            return " or ".join(map(allowed, types))
        case inspect.StructType():
            return "entries"
    return "text"


def is_live(path: str) -> bool:
    """Return whether a reload changes the setting without a restart."""
    return path in LIVE_SETTINGS or path.partition(".")[0] in LIVE_SETTINGS


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
    """Return a table for each section: key, meaning, default, allowed values; a live setting says so."""
    config = load(None, {}, UPSTREAM).config
    types = fields()
    rows: dict[str, list[str]] = {}
    for variable in variables().values():
        info = types[variable.path]
        extra = info.extra_json_schema or {} if isinstance(info, inspect.Metadata) else {}
        default = DEPENDS.get(variable.path) or shown(attrgetter(variable.path)(config))
        section = variable.path.partition(".")[0] if "." in variable.path else "The chain"
        meaning = str(extra.get("description", "")).replace("|", "\\|")
        live = " *Live.*" if is_live(variable.path) else ""
        rows.setdefault(section, []).append(
            f"| `{variable.path}` | {meaning}{live} | {default} | {allowed(info)} |"
        )
    head = ["| key | meaning | default | values |", "|---|---|---|---|"]
    return "\n".join("\n".join([f"## {name}\n", *head, *lines, ""]) for name, lines in rows.items())
