"""Lines of `wire.replies`, made from Kafka's message definitions: which request array feeds which reply array.

A line is needed where a reply has no error code at its top. It is a proposal, right for three of four APIs of Kafka:
the first array of the request is answered by the first array of the reply whose items have error codes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.releases.definitions import Field, Message


def echo_line(request: Message, reply: Message) -> str | None:
    """Return the line without the API's name; None if the reply has an error code at its top, or nothing to echo."""
    version = request.versions[-1]
    if any(field.name == "ErrorCode" and version in field.versions for field in reply.fields):
        return None
    return _echo(request.fields, reply.fields, version)


def _echo(asked: tuple[Field, ...], answered: tuple[Field, ...], version: int) -> str | None:
    arrays = [field for field in asked if field.is_array and version in field.versions]
    answers = [each for each in answered if version in each.versions and each.is_array]
    coded = [each for each in answers if _has_codes(each)]
    if not (arrays and coded):
        return None
    line = f"{snake(arrays[0].name)} > {snake(coded[0].name)}"
    if arrays[0].fields:
        inner = _echo(arrays[0].fields, coded[0].fields, version)
        return f"{line} / {inner}" if inner else line
    named = [each.name for each in coded[0].fields if "Error" not in each.name]
    return f"{line} (*={snake(named[0])})" if named else line


def _has_codes(field: Field) -> bool:
    return any(each.name.endswith("ErrorCode") or _has_codes(each) for each in field.fields)


def snake(name: str) -> str:
    """Return a field's name as the codec library spells it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
