"""A policy that refuses the first write of the process with an error that clients retry."""

import msgspec

from policies.api import FORWARD, Forward, Peer, Policy, Reject, Request
from wire.apis import ApiKey


class RefuseFirstConfig(msgspec.Struct, frozen=True):
    """The error's code."""

    code: int


class RefuseFirst(Policy):
    """Refuses once."""

    Config = RefuseFirstConfig
    config: RefuseFirstConfig
    apis = frozenset({ApiKey.PRODUCE})
    has_refused = False

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Return a Reject for the first write."""
        if self.has_refused:
            return FORWARD
        self.has_refused = True
        return Reject(self.config.code)
