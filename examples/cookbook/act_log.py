"""`act_log`: logs which client created or deleted topics, and what failed."""

import msgspec

from sluice import FORWARD, ApiKey, Forward, Host, Need, Outcome, Peer, Policy, Request, Result


class ActLogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No settings."""


class ActLog(Policy):
    """Logs each request that creates or deletes topics."""

    Config = ActLogConfig
    apis = hears_body = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS})
    needs = Need.TOPICS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        self._topics: dict[int, str] = {}  # of requests in flight

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Keep the names: they can be read only now."""
        self._topics[request.id] = " ".join(each.name or "unknown" for each in request.topics)
        return FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        """Write the line."""
        topics, failed = self._topics.pop(request.id, ""), dict(result.errors or {})
        self.host.log.info(request.api.name, user=peer.user, topics=topics, failed=str(failed))
