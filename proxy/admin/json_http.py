"""Reads requests and makes JSON answers, with the types of `schemas`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from starlette.responses import Response

from proxy.admin.errors import AdminError
from proxy.admin.schemas import Error
from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request

JSON = "application/json"
Shape = TypeVar("Shape")
MAX_DEPTH: Final = 100
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL).finditer
"""Brackets outside of texts."""


def answer(said: msgspec.Struct, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(said), status, media_type=JSON)


def error(status: int, words: str) -> Response:
    """Return an Error with this message."""
    return answer(Error(words), status)


async def read(request: Request, shape: type[Shape]) -> Shape:
    """Return the body as `shape`. Raises AdminError (400) if it is invalid, or deeper than what follows can walk."""
    body = await request.body()
    if is_deeper(body, MAX_DEPTH):
        raise AdminError(400, f"the body: more than {MAX_DEPTH} levels of lists and objects")
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as mistake:
        raise AdminError(400, f"the body: {mistake}") from mistake


def is_deeper(text: bytes, levels: int) -> bool:
    """Return whether JSON has more levels of lists and objects; of a text that is none, whether it may have."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for found in _BRACKETS(text):
        sign = found[0]
        if sign[0] in b"[{":
            depth += 1
            if depth > levels:
                return True
        elif sign[0] in b"]}":
            depth -= 1
    return False


def query_parameters(request: Request, known: Collection[str]) -> dict[str, str]:
    """Return the parameters of the query. Raises AdminError (400) for one that is unknown or given twice."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            words = f"known are: {', '.join(sorted(known))}" if known else "none is known"
            raise AdminError(400, f"unknown parameter {printable(name)!r}; {words}")
        if name in found:
            raise AdminError(400, f"{name} is given twice")
        found[name] = value
    return found


def whole_number(text: str, name: str, lowest: int, highest: int) -> int:
    """Return the number. Raises AdminError (400) unless it is a whole one in `lowest`..`highest`."""
    if text.isascii() and text.isdecimal() and len(text) < 20 and lowest <= int(text) <= highest:
        return int(text)
    raise AdminError(
        400, f"{name}: found {printable(text)!r}, expected a whole number in {lowest}..{highest}"
    )
