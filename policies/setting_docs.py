"""The settings of a policy for people: name, expected value, default and meaning.

A meaning is the description of the type (`msgspec.Meta`), else the docstring below the field, else empty: a compiled
module has no source to read docstrings from.
"""

from __future__ import annotations

import ast
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.inspect import Metadata, type_info

from policies.type_names import describe_type, describe_value, struct_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class SettingDoc(NamedTuple):
    """One setting. `name` is its path below the entry's `config`; `quotas[].user` is a key of each item of a list."""

    name: str
    expected: str
    default: str
    meaning: str


def setting_docs(config: type) -> list[SettingDoc]:
    """Return the settings of a policy's `Config` in their order; those of a list of structs follow the list."""
    return list(_walk(type_info(config), ""))


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a docstring in one line."""
    line = " ".join(cleandoc(text or "").partition("\n\n")[0].split())
    return line.partition(". ")[0].rstrip(".")


def _walk(info: msgspec.inspect.Type, path: str) -> Iterator[SettingDoc]:
    struct = struct_of(info)
    if struct is None:
        return
    told = _docstrings(struct.cls)
    for each in struct.fields:
        name = f"{path}{each.encode_name}"
        extra = each.type.extra_json_schema or {} if isinstance(each.type, Metadata) else {}
        meaning = str(extra.get("description") or told.get(each.name, ""))
        yield SettingDoc(name, describe_type(each.type), _default(each), " ".join(meaning.split()))
        item = _item(each.type)
        yield from _walk(item or each.type, f"{name}[]." if item else f"{name}.")


def _item(info: msgspec.inspect.Type) -> msgspec.inspect.Type | None:
    inner = info.type if isinstance(info, Metadata) else info
    found = getattr(inner, "item_type", None)
    return found if isinstance(found, msgspec.inspect.Type) else None


def _default(field: msgspec.inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return "none"
    if field.default is None or field.default in ((), ""):
        return "none"
    return str(field.default) if isinstance(field.default, str) else describe_value(field.default)


def _docstrings(struct: type) -> dict[str, str]:
    """Return the docstring below each field, with those of base classes; empty where there is no source."""
    found: dict[str, str] = {}
    for kind in reversed(struct.__mro__[:-1]):
        try:
            (tree,) = ast.parse(dedent(getsource(kind))).body
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, after in pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[node.target.id] = cleandoc(after.value.value)
    return found
