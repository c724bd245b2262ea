"""What the core tells whoever listens: happenings in the past tense, none of them per ordinary request.

Telemetry implements this; the core never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from proxy.core.errors import CloseReason
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.core.stats.usage import UsageRow


class Observer:
    """Every hook does nothing here; override what you want to hear."""

    hears_audit = False
    """Whether administrative requests are told of (`on_audited`). It holds for requests of plans made from now on."""

    def on_session_opened(self, peer: Peer) -> None:
        """A client is connected, and so is its broker."""

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """A session has ended."""

    def on_bootstrap_closed(self, peer: Peer, address: str, likely: str) -> None:
        """The bootstrap broker at `address` has closed with the client's first requests unanswered. `likely`: why."""

    def on_node_learned(self, node_id: int, host: str, port: int) -> None:
        """A broker's address is new or has changed."""

    def on_unmapped_node(self, node_id: int) -> None:
        """A broker outside the declared range was seen; it is advertised at the bootstrap port."""

    def on_trail(self, trail: RequestTrace) -> None:
        """A request has ended that waited, failed, was slow or was sampled. Only if the engine keeps trails."""

    def on_unmuted(self, trail: RequestTrace, now_us: int) -> None:
        """The throttle that this request brought upon its client is over, or its client has gone."""

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """A second is over: what each key used in it. Also told when it is no row at all."""

    def on_expired(self, peer: Peer, api_name: str) -> None:
        """A request was answered here, because the broker had not by its deadline."""

    def on_pool_depleted(self, pool: str) -> None:
        """A pool has run dry (`requests`, `replies`): somebody waits for memory, or gets crumbs."""

    def on_pool_recovered(self, pool: str, depleted_ms: int) -> None:
        """Nobody waits for this pool any more; the outage has lasted so long."""

    def on_connections_full(self, max_connections: int) -> None:
        """Clients want in, and as many are in as may be; told again while that lasts."""

    def on_descriptors_exhausted(self, detail: str) -> None:
        """The system has no descriptor for a client that wants in; told again while that lasts."""

    def on_internal_error(self, error: BaseException) -> None:
        """A fault of our own ended a session: a bug."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """A policy raised."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """A policy in mode `observe` would have refused, delayed, answered or changed a request."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """A policy has refused a client at its connect, or a request. Of a request `on_trail` tells the end."""

    def on_audited(self, trail: RequestTrace) -> None:
        """An administrative request has ended, or one that a policy refused. Only if `hears_audit`."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """A hook took `policies.hook_runner.SLOW_US` or more, about a request of this API ('': about none)."""

    def on_slow_step(self, took_ms: int, policies: Sequence[str]) -> None:
        """Everybody has waited for one step; one of these policies may be why, and is measured from now on."""
