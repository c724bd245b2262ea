"""A policy for tests: the client id `API.CODE` says which requests are refused, and with which error code."""

from typing import Any

from policies.api import FORWARD, Forward, Peer, Policy, Reject, Request
from wire.errors import ErrorCode


class Refuser(Policy):
    """Refuses by client id."""

    Config = dict[str, Any]  # type: ignore[assignment] # it has no settings

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Refuse the API that the client id names."""
        api, dot, code = peer.client_id.partition(".")
        if dot and request.api.name == api:
            return Reject(ErrorCode[code], message="not here")
        return FORWARD
