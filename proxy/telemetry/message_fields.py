"""The fields of a line that a policy logs, made safe: they may be anything, a client's bytes included."""

from __future__ import annotations

from reprlib import Repr
from typing import TYPE_CHECKING, Final

from proxy.telemetry.escaping import printable
from proxy.telemetry.line_limits import MAX_FIELD_CHARS

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FIELDS: Final = 20
MAX_FIELD_NAME_CHARS: Final = 64
_MAX_NUMBER: Final = 1 << 64
_RESERVED: Final = frozenset(
    {"event", "level", "ts", "policy", "message", "suppressed", "fields_left_out"}
    | {"exc_info", "exception", "stack_info", "stack", "positional_args"}
)
_repr = Repr()
_repr.maxstring = _repr.maxother = 200


def message_fields(message: object, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the line. A name that the log uses itself gets a `_` at its end."""
    line: dict[str, object] = {"message": _shown(message)}
    for name, value in fields.items():
        if len(line) > MAX_FIELDS:
            line["fields_left_out"] = len(fields) - MAX_FIELDS
            break
        shown = printable(name, MAX_FIELD_NAME_CHARS)
        line[f"{shown}_" if shown in _RESERVED else shown] = _shown(value)
    return line


def _shown(value: object) -> object:
    """Return a value that the log can write: text without control characters, numbers, else a cut `repr`."""
    kind = type(value)
    if kind is str:
        return printable(str(value), MAX_FIELD_CHARS)
    if value is None or kind is bool:
        return value
    if isinstance(value, (int, float)) and kind in {int, float} and abs(value) < _MAX_NUMBER:
        return value  # neither infinite nor NaN, which JSON does not have
    try:
        return printable(_repr.repr(value), MAX_FIELD_CHARS)
    except BaseException:  # noqa: BLE001 - `__repr__` is a policy's code
        return f"an object of type {kind.__name__}"
