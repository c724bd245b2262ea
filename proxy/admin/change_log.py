"""One log line for each requested change: the change, the client and the status.

Rules:
- The handler supplies the details (`note`). The raw body is never logged, so no secret can be in the line.
- Refused requests are logged too, a few a second; changes are all logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from starlette.types import Scope

_MAX_PATH_CHARS = 300


def add_details(scope: Scope, **fields: object) -> None:
    """Add details of the change to its log line."""
    scope["state"].setdefault("change", {}).update(fields)


class ChangeLog:
    """The log lines of one listener. `way` is its name: socket, control or listen."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._log = structlog.get_logger()

    def change(self, scope: Scope, status: int) -> None:
        """Log the request, which was answered with this status."""
        fields: dict[str, object] = {
            "method": scope["method"],
            "path": printable(scope["path"], _MAX_PATH_CHARS),
            "status": status,
            "way": self._way,
            "client": _client(scope),
            **scope["state"].get("change", {}),
        }
        self._log.warning("admin_change" if status < 400 else "admin_refused", **fields)


def _client(scope: Scope) -> str:
    peer = scope["state"].get("peer", "")
    if peer:
        return str(peer)
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""
