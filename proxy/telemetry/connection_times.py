"""The start time of each open connection, for the admin server's list of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer
    from proxy.core.errors import CloseReason


class ConnectionTimes(Observer):
    """Keeps in `opened_ms` the time at which each open session began, by session id."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.opened_ms: dict[int, int] = {}
        self._now_ms = now_ms

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        self.opened_ms[peer.session_id] = self._now_ms()

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer."""
        self.opened_ms.pop(peer.session_id, None)
