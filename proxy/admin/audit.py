"""One log line for each change that somebody asks for: what, who, and what came of it.

Rules:
- What was asked comes from the handler (`note`), never raw from the body: no secret can be in it.
- Refused ones are told of as well, a few a second; those beyond are counted in the next line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

REFUSED_PER_SECOND = 5
_TEXT_MOST_CHARS = 300


def note(scope: Scope, **fields: object) -> None:
    """What a change is about, for its line."""
    scope["state"].setdefault("audit", {}).update(fields)


class Audit:
    """One for each listener. `way` is what it is called: socket, control, listen."""

    def __init__(self, way: str, now_ms: Callable[[], int]) -> None:
        self._way = way
        self._now_ms = now_ms
        self._log = structlog.get_logger()
        self._second = 0
        self._lines = 0
        self._suppressed = 0

    def change(self, scope: Scope, status: int) -> None:
        """It was answered with this status."""
        fields: dict[str, object] = {
            "method": scope["method"],
            "path": printable(scope["path"]),
            "status": status,
            "way": self._way,
            "client": _client(scope),
            **scope["state"].get("audit", {}),
        }
        if status < 400:
            self._log.warning("admin_change", **fields)
            return
        second = self._now_ms() // 1000
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= REFUSED_PER_SECOND:
            self._suppressed += 1
            return
        self._lines += 1
        if self._suppressed:
            fields["suppressed"], self._suppressed = self._suppressed, 0
        self._log.warning("admin_refused", **fields)


def printable(text: str) -> str:
    """A caller's own words: no control characters into a terminal, and no novels."""
    return "".join(c if c.isprintable() else "?" for c in text[:_TEXT_MOST_CHARS])


def _client(scope: Scope) -> str:
    peer = scope["state"].get("peer", "")
    if peer:
        return str(peer)
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""
