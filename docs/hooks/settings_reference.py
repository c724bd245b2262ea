"""The table of all settings, from the types that check them."""

from __future__ import annotations

from msgspec import NODEFAULT, inspect

from policies.type_names import struct_of
from proxy.config import Config
from proxy.config.sources import variables
from proxy.config.values import INT64_MAX
from proxy.dynamic_config import LIVE_SETTINGS

DEPENDS = {
    "listen.advertised_host": "`listen.address`",
    "usage_log.instance": "the host's name",
}
"""Settings whose default is not a fixed value."""


def shown(value: object) -> str:
    """Return a default as a reader writes it in the YAML file."""
    if value is NODEFAULT:
        return "required"
    if value is None:
        return "null"
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
        case inspect.NoneType():
            return "null"
        case inspect.StructType():
            return "entries"
        case inspect.DictType():
            return "mapping"
    return "text"


def is_live(path: str) -> bool:
    """Return whether a reload changes the setting without a restart."""
    return any(path == each or path.startswith(f"{each}.") for each in LIVE_SETTINGS)


def meaning(info: inspect.Type) -> str:
    """Return the description of a setting or section."""
    extra = info.extra_json_schema or {} if isinstance(info, inspect.Metadata) else {}
    return str(extra.get("description", "")).replace("|", "\\|")


def section(path: str) -> str:
    """Return the heading of a section, and the meaning of one that is optional."""
    info = inspect.type_info(Config)
    for key in path.split("."):
        struct = struct_of(info)
        (info,) = (
            each.type for each in (struct.fields if struct else ()) if each.encode_name == key
        )
    return f"## {path}\n" + (f"\n{meaning(info)}\n" if meaning(info) else "")


def settings_reference() -> str:
    """Return a table for each section: key, meaning, default, allowed values; a live setting says so."""
    rows: dict[str, list[str]] = {}
    for each in variables().values():
        default = DEPENDS.get(each.path) or shown(each.default)
        live = " *Live.*" if is_live(each.path) else ""
        rows.setdefault(each.path.rpartition(".")[0], []).append(
            f"| `{each.path}` | {meaning(each.kind)}{live} | {default} | {allowed(each.kind)} |"
        )
    head = ["| key | meaning | default | values |", "|---|---|---|---|"]
    return "\n".join(
        "\n".join([section(name) if name else "## The chain\n", *head, *lines, ""])
        for name, lines in rows.items()
    )
