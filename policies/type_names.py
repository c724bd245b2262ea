"""Types and values in words, for the authors of settings rather than of programs.

- The words for a type come from its msgspec description; `Meta(extra={"expected": words})` overrides them.
- The words are plain: "a text", "a list", "nothing". A key or value is shown as it was written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from msgspec import inspect

_SHOWN_CHARS = 60
_COMPARED_CHARS = 200
"""A longer word is not a misspelt key or value, and comparing it would take long."""
_QUANTITY = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]{1,3})\s*")
_BYTES = {"b": 1} | {
    unit: 1 << power
    for power, letter in ((10, "k"), (20, "m"), (30, "g"))
    for unit in (letter, f"{letter}b", f"{letter}ib")
}
_MS = {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def nearest(word: str, valid: Iterable[object]) -> str:
    """Return the most similar of `valid`, ignoring case, or '' if none is similar."""
    if len(word) > _COMPARED_CHARS:
        return ""
    folded = {str(each).lower(): str(each) for each in valid}
    close = difflib.get_close_matches(word.lower(), folded, n=1)
    return folded[close[0]] if close else ""


def convert_units(path: str, info: inspect.Type, value: object) -> str:
    """Return the number that a text with a unit means, in the unit that ends the key; '' if it has none.

    `10s` of a key that ends in `_ms` is 10000, `100MB` of one that ends in `_bytes` is 104857600.
    """
    if not isinstance(strip(info), inspect.IntType) or not isinstance(value, str):
        return ""
    quantity = _QUANTITY.fullmatch(value)
    if quantity is None:
        return ""
    number, unit = float(quantity[1]), quantity[2].lower()
    if path.endswith("_bytes") and unit in _BYTES:
        return str(round(number * _BYTES[unit]))
    if path.endswith("_ms") and unit in _MS:
        return str(round(number * _MS[unit]))
    if path.endswith("_seconds") and unit in _MS and number * _MS[unit] >= 1000:
        return str(round(number * _MS[unit] / 1000))
    return ""


def describe_value(value: object) -> str:
    """Return a value in the words of an author of YAML."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def describe_type(info: inspect.Type) -> str:
    """Return what a type expects: "an integer from 1 to 65535", "one of text, json"."""
    words = extra(info).get("expected")
    if isinstance(words, str):
        return words
    match strip(info):
        case inspect.IntType() as number:
            return "an integer" + _bounds(number)
        case inspect.FloatType() as number:
            return "a number" + _bounds(number)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType(min_length=least):
            return "a text" if not least else "a text that is not empty"
        case inspect.NoneType():
            return "nothing"
        case inspect.LiteralType() | inspect.EnumType():
            return f"one of {join_words(choices(info))}"
        case inspect.UnionType(types=types):
            return " or ".join(map(describe_type, types))
        case (
            inspect.ListType(item_type=item, min_length=least)
            | inspect.VarTupleType(item_type=item, min_length=least)
        ):
            return f"a list{' that is not empty' if least else ''}, each {describe_type(item)}"
        case inspect.DictType() | inspect.StructType():
            return "a mapping"
    return "a value of another kind"


def _bounds(number: inspect.IntType | inspect.FloatType) -> str:
    if number.ge is not None and number.le is not None:
        return f" from {number.ge} to {number.le}"
    limits = {"at least": number.ge, "above": number.gt, "at most": number.le, "below": number.lt}
    words = [f"{word} {limit}" for word, limit in limits.items() if limit is not None]
    return f" {' and '.join(words)}" if words else ""


def choices(info: inspect.Type) -> list[object]:
    """Return the values that a Literal or Enum allows; empty for other types."""
    match strip(info):
        case inspect.LiteralType(values=values):
            return list(values)
        case inspect.EnumType(cls=cls):
            return [each.value for each in cls]
        case inspect.UnionType(types=types):
            return [choice for each in types for choice in choices(each)]
    return []


def join_words(words: Iterable[object]) -> str:
    """Return `a, b, c`."""
    return ", ".join(map(str, words))


def extra(info: inspect.Type) -> Mapping[str, object]:
    """Return what `Meta(extra=...)` adds to a type."""
    return info.extra or {} if isinstance(info, inspect.Metadata) else {}


def struct_of(info: inspect.Type) -> inspect.StructType | None:
    """Return the Struct of a type that is one, or one or None; else None."""
    match strip(info):
        case inspect.StructType() as struct:
            return struct
        case inspect.UnionType(types=types) if inspect.NoneType() in types and len(types) == 2:
            return struct_of(next(each for each in types if each != inspect.NoneType()))
    return None


def strip(info: inspect.Type) -> inspect.Type:
    """Return the type without its `Annotated` metadata."""
    return strip(info.type) if isinstance(info, inspect.Metadata) else info
