"""The events that the core reports, named in the past tense; an ordinary request causes none.

Telemetry implements this interface; the core never imports telemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel
    from proxy.core.errors import CloseReason
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.core.stats.usage import UsageRow
    from wire.apis import Api


class AuthenticationFailure(NamedTuple):
    """A client has failed to authenticate to Sluice. `user` is what it claimed to be, and may be any text.

    `why` says it in words, without a secret.
    """

    mechanism: str
    user: str
    why: str
    now_ms: int


class Observer:
    """The base class of all observers: each hook does nothing unless it is overridden."""

    receives_audit = False
    """Whether administrative requests are reported to `on_audited`. A change applies to plans made from then on."""

    def on_session_opened(self, peer: Peer) -> None:
        """A client has connected and its session exists."""

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """A session has ended, or a policy has refused it at connect. `detail` explains `reason`."""

    def on_authentication_failed(self, peer: Peer, failure: AuthenticationFailure) -> None:
        """A client has failed to authenticate to Sluice. Its session ends soon after."""

    def on_handshake_failed(self, host: str, port: int, detail: str) -> None:
        """A client has connected to a TLS port, and there is no session because its handshake failed."""

    def on_bootstrap_closed(self, peer: Peer, address: str, likely: str) -> None:
        """The bootstrap broker at `address` closed without answering the client. `likely` is the probable cause."""

    def on_node_learned(self, node_id: int, host: str, port: int) -> None:
        """A broker's address is new or has changed."""

    def on_unmapped_node(self, node_id: int) -> None:
        """A broker outside the declared range was seen; it is advertised at the bootstrap port."""

    def on_trace(self, trace: RequestTrace) -> None:
        """A request that waited, failed, was slow or was sampled has ended. Only if the engine keeps traces."""

    def on_unmuted(self, trace: RequestTrace, now_us: int) -> None:
        """The throttle that this request caused is over, or its client has disconnected."""

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """A second is over. `rows` has the usage of each (user, client id) in it, and may be empty."""

    def on_expired(self, peer: Peer, api_name: str) -> None:
        """Sluice answered a request itself, because the broker had not done so by the deadline."""

    def on_removed_version(self, peer: Peer, api: Api) -> None:
        """A client uses a version that `api.removed_in` removed: once for each session and version, at least."""

    def on_pool_depleted(self, pool: str) -> None:
        """A pool (`requests` or `replies`) is exhausted: connections wait for memory, or get minimal reads."""

    def on_pool_recovered(self, pool: str, depleted_ms: int) -> None:
        """No connection waits for this pool any more; it was exhausted for `depleted_ms`."""

    def on_accept_delayed(self, limit: str, value: int) -> None:
        """A client waits because `limit`, a setting of connections, is reached; repeated while it lasts."""

    def on_descriptors_exhausted(self, detail: str) -> None:
        """A client cannot connect because no file descriptor is left; repeated while it lasts."""

    def on_internal_error(self, error: BaseException) -> None:
        """An unexpected exception in Sluice itself was caught; it may have ended a session."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """The hook `hook` of the policy entry `name` raised `error`."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """A policy in mode `observe` would have refused, delayed, answered or changed a request."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """A policy has refused a connection or a request. `on_trace` reports the end of that request."""

    def on_audited(self, trace: RequestTrace) -> None:
        """An administrative request, or one that a policy refused, has ended. Only if `receives_audit`."""

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """The policy of the entry `name` logs a line. All of it is the policy's own, and may be anything."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """A hook took `policies.hook_runner.SLOW_US` or more for a request of `api_name` ('': for no request)."""

    def on_slow_step(self, took_ms: int, policies: Sequence[str]) -> None:
        """One step of the event loop delayed all clients. `policies` may be the cause, and are now measured."""
