"""Which clients have used versions that a release of Kafka removed, so that a line names each once a minute.

A client of a newer broker connects again and again, because the broker closes its connection. Its lines would take the
place of other clients' in the limit of the event, so its client id, API and version are remembered for a minute. As
many are remembered as lines may be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.telemetry.line_limits import LIMITS

if TYPE_CHECKING:
    from policies.api import Peer
    from wire.apis import Api

EVENT: Final = "removed_version"


class RemovedVersions:
    """The client ids, APIs and versions of the present minute."""

    def __init__(self) -> None:
        self._minute = 0
        self._seen: set[tuple[str, int, int]] = set()

    def is_new(self, peer: Peer, api: Api, now_ms: int) -> bool:
        """Return whether this client's use of this version has not been told in this minute."""
        limit = LIMITS[EVENT]
        minute = now_ms // limit.period_ms
        if minute != self._minute:
            self._minute = minute
            self._seen.clear()
        use = peer.client_id, api.key, api.version
        if use in self._seen:
            return False
        if len(self._seen) < limit.lines:
            self._seen.add(use)
        return True
