"""One log line for each change that somebody asks for: what, who, and what came of it.

Rules:
- What was asked comes from the handler (`note`), never raw from the body: no secret can be in it.
- Refused ones are told of as well; the log lets a few of them pass a second, and all changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from starlette.types import Scope

_MAX_TEXT_CHARS = 300


def note(scope: Scope, **fields: object) -> None:
    """What a change is about, for its line."""
    scope["state"].setdefault("change", {}).update(fields)


class ChangeLog:
    """One for each listener. `way` is what it is called: socket, control, listen."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._log = structlog.get_logger()

    def change(self, scope: Scope, status: int) -> None:
        """It was answered with this status."""
        fields: dict[str, object] = {
            "method": scope["method"],
            "path": printable(scope["path"]),
            "status": status,
            "way": self._way,
            "client": _client(scope),
            **scope["state"].get("change", {}),
        }
        self._log.warning("admin_change" if status < 400 else "admin_refused", **fields)


def printable(text: str) -> str:
    """A caller's own words: no control characters into a terminal, and no novels."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_TEXT_CHARS])


def _client(scope: Scope) -> str:
    peer = scope["state"].get("peer", "")
    if peer:
        return str(peer)
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""
