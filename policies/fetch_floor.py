"""`fetch_floor`: makes consumers that fetch too often wait for more records, or longer.

    - use: fetch_floor
      config:
        consumers:                        # the first rule that matches counts
          - {client_id: dashboard, min_bytes: 65536, max_wait_ms: 1000}
          - {user: reports, max_wait_ms: 2000}

The values in a Fetch of these consumers are raised to the floor, in place, and never lowered. min_bytes is raised to
at most the max_bytes of the same Fetch: a wait for more bytes than the reply may have would always be in vain. A Fetch
that closes a fetch session is not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from policies.api import FORWARD, Forward, Need, Patch, Policy, PolicyConfigError
from policies.validation import Problem
from policies.verdicts import short_repr
from wire.apis import ApiKey
from wire.fetch import FetchHead, FetchKind, head_offsets
from wire.primitives import INT32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.api import Host, Peer, Request


class FloorRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The minimum wait of these consumers."""

    user: str | None = None
    """A principal's name; none: every user."""
    client_id: str | None = None
    """A client id; none: every client."""
    min_bytes: Annotated[int, msgspec.Meta(ge=1, le=0x7FFF_FFFF)] = 0
    """The broker answers when it has this many bytes..."""
    max_wait_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 0
    """... or after this time in ms. After much longer waits some clients consider the broker dead."""

    def matches(self, peer: Peer) -> bool:
        """Return whether the rule applies to this consumer."""
        return (self.user is None or self.user == peer.user) and (
            self.client_id is None or self.client_id == peer.client_id
        )

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a rule without a consumer, and for one without a floor."""
        if self.user is None and self.client_id is None:
            yield Problem("", "a floor without a consumer", "user, client_id, or both")
        if not (self.min_bytes or self.max_wait_ms):
            yield Problem("", "no floor", "min_bytes, max_wait_ms, or both")


class FetchFloorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the policy."""

    consumers: tuple[FloorRule, ...] = ()
    """The consumers whose fetches are raised; the first rule that matches counts."""


class FetchFloor(Policy):
    """Raises min_bytes and max_wait_ms of the configured consumers' fetches."""

    Config = FetchFloorConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, FetchFloorConfig):
            raise PolicyConfigError("", f"expected a FetchFloorConfig, got {short_repr(config)}")
        self._rules = config.consumers
        self.apis = frozenset({ApiKey.FETCH} if config.consumers else ())
        self.needs = {ApiKey.FETCH: Need.HEAD}

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Return a Forward with patches for the fields below the floor."""
        head = request.head
        if not isinstance(head, FetchHead) or head.kind is FetchKind.CLOSE:
            return FORWARD
        rule = next((each for each in self._rules if each.matches(peer)), None)
        if rule is None:
            return FORWARD
        offsets = head_offsets(request.api_version)
        min_bytes = min(rule.min_bytes, head.max_bytes)
        patches: list[Patch] = []
        if head.max_wait_ms < rule.max_wait_ms:
            patches.append(Patch(offsets.max_wait_ms, INT32.pack(rule.max_wait_ms)))
        if head.min_bytes < min_bytes:
            patches.append(Patch(offsets.min_bytes, INT32.pack(min_bytes)))
        return Forward(tuple(patches)) if patches else FORWARD
