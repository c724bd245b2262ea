"""`client_ids`: only clients with a known client id prefix may produce or fetch.

    - use: client_ids
      config: {prefixes: [billing-, audit-]}

A client id is a claim, not a proof: this policy finds mistakes, it does not stop an attacker.
"""

from __future__ import annotations

import msgspec

from sluice import (
    FORWARD,
    ApiKey,
    ErrorCode,
    Forward,
    Host,
    Outcome,
    Peer,
    Policy,
    PolicyConfigError,
    Reject,
    Request,
    Result,
)


class ClientIdsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings, checked before `ClientIds` is made."""

    prefixes: tuple[str, ...]
    """A client id must begin with one of these."""


class ClientIds(Policy):
    """Refuses Produce and Fetch of clients whose id begins with none of the prefixes."""

    Config = ClientIdsConfig
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})  # everything else costs nothing

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, ClientIdsConfig) or not config.prefixes:
            raise PolicyConfigError("prefixes", "name at least one")
        self._prefixes = config.prefixes
        self.admitted = 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge by the header alone, so that the body streams through."""
        if peer.client_id.startswith(self._prefixes):
            return FORWARD
        return Reject(ErrorCode.POLICY_VIOLATION)

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        """Count the requests that were not answered by a policy."""
        self.admitted += outcome is not outcome.ANSWERED
