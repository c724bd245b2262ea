"""Fields of replies that say nothing: a reply that lists nothing, and an item that is refused.

- Numbers are 0, texts and arrays empty, structs null, AuthorizedOperations those of a request that did not ask.
- An error code is the given one. The text after it is the error message, which is null if there is none. The name after
  the status of a topology's description is null, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire.listing_view import NOT_ASKED
from wire.primitives import INT16, INT32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wire.request_layouts import Part


def bare(parts: Iterable[Part], code: int, message: str | None, *, flexible: bool) -> bytes:
    """Return these fields, without the tags after them."""
    before = ""
    found: list[bytes] = []
    for part in parts:
        kind = part.kind
        if kind == "s" and before in {"c", "S"}:
            found.append(_text(message if before == "c" else None, flexible=flexible))
        else:
            found.append(_field(kind, code, flexible=flexible))
        before = kind
    return b"".join(found)


def _field(kind: str, code: int, *, flexible: bool) -> bytes:
    if kind.isdigit():
        return bytes(int(kind))
    if kind == "c":
        return INT16.pack(code)
    if kind == "O":
        return INT32.pack(NOT_ASKED)
    if kind == "i":
        return bytes(16)
    if kind == "S":
        return b"\0"
    if kind in "(N":
        return b"\xff"
    if kind in "{[m":
        return b"\1" if flexible else bytes(4)
    return _text("", flexible=flexible)


def _text(text: str | None, *, flexible: bool) -> bytes:
    raw = b"" if text is None else text.encode()
    if flexible:  # of at most 126 bytes
        return bytes((0 if text is None else len(raw) + 1,)) + raw
    return INT16.pack(-1 if text is None else len(raw)) + raw
