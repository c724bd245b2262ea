"""Lines of `wire.newer_messages`, made from Kafka's message definitions: one message, and the structs in it.

The notation is explained there. Structs that several messages use may be moved to its common ones by hand.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tests.support.releases.echoes import snake
from wire.newer_messages import MESSAGES, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.releases.definitions import Field, Message

_INDENT = 17
_WIDTH = 120
_TIMES = {"int32": "timedelta_i32", "int64": "timedelta_i64"}
"""The codec library's types of a time in milliseconds, whose unit it leaves out of the name."""


def newer_lines(message: Message, version: int) -> str:
    """Return the lines of this version."""
    structs = {
        field.type: field.fields
        for _, field in message.walk(version)
        if field.fields and version in field.versions
    }
    head = f"{message.key} {version} {message.kind}"
    lines = [_wrapped(head, _INDENT, message.fields, version)]
    indent = 6 + max(map(len, structs), default=0)
    lines += (_wrapped(f"    {name}", indent, of, version) for name, of in structs.items())
    return "\n".join(lines)


def fits(message: Message, version: int) -> bool:
    """Return whether the table has this version as the definition says."""
    place = message.key, version, message.kind
    made = read_lines(newer_lines(message, version))[place]
    return _tree(read_lines(MESSAGES).get(place, {"": []}), "") == _tree(made, "")


def _tree(lines: dict[str, list[str]], struct: str) -> list[object]:
    """Return the fields of a struct, each with those of its own struct."""
    found: list[object] = []
    for word in lines[struct]:
        type_ = word.partition(":")[2].partition("#")[0].partition("=")[0].strip("[]?")
        found.append((word, _tree(lines, type_) if type_ in lines else ()))
    return found


def _wrapped(head: str, indent: int, fields: tuple[Field, ...], version: int) -> str:
    words = " ".join(_words(fields, version))
    lead = head.ljust(indent)
    # A struct without fields, which wraps to nothing, is its head alone.
    return textwrap.fill(words, _WIDTH, initial_indent=lead, subsequent_indent=" " * indent) or head


def _words(fields: tuple[Field, ...], version: int) -> Iterator[str]:
    for field in fields:
        if version not in field.versions:
            continue
        name, type_ = snake(field.name), field.type
        if name.endswith("_ms") and type_ in _TIMES:
            name, type_ = name.removesuffix("_ms"), _TIMES[type_]
        text = f"[{type_}]" if field.is_array else type_
        if version in field.nullable:
            text += "?"
        elif field.default is not None:
            text += f"={_default(type_, field.default)}"
        yield f"{name}:{text}" + (f"#{field.tag}" if version in field.tagged else "")


def _default(type_: str, text: str) -> str:
    """Return a default as the table has it: numbers are decimal, and a bool is one."""
    if type_ == "bool":
        return str(int(text == "true"))
    return text if type_ in {"string", "float64"} else str(int(text, 0))
