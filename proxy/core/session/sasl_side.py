"""The part of a session that handles its client's SASL requests: it listens to them, or answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.rewrites import Rewrite
    from wire.apis import Api


class SaslSide(Protocol):
    """`SaslListener` where the brokers authenticate clients, `SaslGate` where Sluice does."""

    @property
    def is_authenticating(self) -> bool:
        """Whether a SASL exchange is under way, or must succeed before the client may send other requests."""

    @property
    def user(self) -> str:
        """Return the user of the users file that has authenticated to Sluice; "" if there is none."""

    def max_bytes(self, api_key: int, api_name: str) -> int:
        """Return how large a request of this API may be now. Raises SessionFault if it ends the session.

        It is asked only while `is_authenticating`, and about SASL requests; maybe several times for one request.
        """

    def on_sign_on(self, api_key: int) -> None:
        """Note that the head of an ApiVersions or SASL request has arrived."""

    def takes(self, exchange: ObservedExchange, body: bytes, now_ms: int) -> bool:
        """Take a whole SASL request. Return whether it is answered here; else it is forwarded to the broker."""

    def rewrite_for(self, api: Api) -> Rewrite | None:
        """Return the rewrite of the replies to a SASL request that is forwarded."""

    def release(self, now_ms: int) -> None:
        """Complete what is not answered, because the session is closed."""
