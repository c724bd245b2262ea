"""A session whose client must authenticate to Sluice itself: its SASL requests are answered here.

Rules:
- No request passes that `Authentication.check` does not allow. It is asked when a request's head has arrived.
- While a password is verified, and until a failure is answered, the client is muted (UPSTREAM_AUTH).
- Replies leave in request order, also those of a re-authentication among replies of the broker.
- An exchange that is not answered when the session ends is completed then.
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.auth.sasl_server import (
    FAILURE_DELAY_MS,
    Authentication,
    Step,
    UncheckedPassword,
)
from proxy.core.connection_limits import address_of
from proxy.core.errors import CloseReason
from proxy.core.observer import AuthenticationFailure
from proxy.core.session import mutes
from proxy.core.session.channel import Mute
from proxy.core.session.local_replies import answer
from proxy.core.session.plan import MAX_UNAUTHENTICATED_BYTES
from wire.api_keys import ApiKey
from wire.sasl import largest_token_bytes

if TYPE_CHECKING:
    from proxy.core.auth.sasl_server import Answer, SaslServer
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from wire.apis import Api


class SaslGate:
    """The authentication of one session's client. See `SaslSide`."""

    __slots__ = ("_authentication", "_expiry", "_link", "_server", "_timer", "_unanswered")

    def __init__(self, link: Link, server: SaslServer) -> None:
        self._link = link
        self._server = server
        self._authentication = Authentication(server)
        self._unanswered: ObservedExchange | None = None  # a request that is answered later
        self._timer: Timer | None = None  # of a failure
        self._expiry: Timer | None = None

    # -- what a session asks ---------------------------------------------------------------------

    @property
    def is_authenticating(self) -> bool:
        """Whether only requests that `max_bytes` allows may pass."""
        return not self._authentication.is_open

    @property
    def user(self) -> str:
        """Return the user that has authenticated; "" before that."""
        return self._authentication.user

    def max_bytes(self, api_key: int, api_name: str) -> int:
        """See `SaslSide`."""
        authentication = self._authentication
        authentication.check(api_key, api_name, self._link.shared.now_ms)
        if api_key == ApiKey.SASL_AUTHENTICATE:
            return largest_token_bytes(authentication.mechanism)
        return MAX_UNAUTHENTICATED_BYTES

    def on_sign_on(self, api_key: int) -> None:
        """Count an ApiVersions request."""
        if api_key == ApiKey.API_VERSIONS:
            self._authentication.on_api_versions()

    # -- SASL requests ---------------------------------------------------------------------------

    def rewrite_for(self, api: Api) -> None:
        """Return no rewrite: SASL requests are not forwarded."""

    def takes(self, exchange: ObservedExchange, body: bytes, now_ms: int) -> bool:
        """Answer a SASL request, now or later. Raises WireError if it is malformed."""
        api: Api = exchange.plan.api
        authentication = self._authentication
        if api.key == ApiKey.SASL_HANDSHAKE:
            found: Answer | UncheckedPassword = authentication.on_handshake(body, now_ms)
            self._link.plans.clear()  # a re-authentication may have begun
        else:
            found = authentication.on_token(body, api.version, now_ms)
        if isinstance(found, UncheckedPassword):
            self._verify(exchange, found)
        else:
            self._give(exchange, found, now_ms)
        return True

    def _verify(self, exchange: ObservedExchange, pending: UncheckedPassword) -> None:
        link = self._link

        def on_done(is_right: bool | None) -> None:  # noqa: FBT001 - the result itself
            if self._unanswered is not exchange or link.ended:
                return
            self._unanswered = None
            now_ms = link.shared.now_ms
            if is_right is None:
                self._give_up(exchange)
                link.ask_for_turn()
                return
            found = self._authentication.on_checked(pending, now_ms, is_right=is_right)
            try:
                self._give(exchange, found, now_ms)
            except Exception as fault:  # noqa: BLE001 - others may wait for the same check
                link.fail_and_ask_for_turn(fault)
            else:
                link.ask_for_turn()

        address = address_of(link.peer.host)
        user, password, credential = pending[:3]
        if not self._server.passwords.try_check(user, password, credential, address, on_done):
            self._give_up(exchange)
            return
        self._unanswered = exchange
        mutes.mute_after_request(link, Mute.UPSTREAM_AUTH)

    def _give_up(self, exchange: ObservedExchange) -> None:
        """End the session without a reply: an error would tell its client that the password is wrong."""
        link = self._link
        link.complete(exchange, Outcome.DISCONNECTED, link.shared.now_ms, forwarded=False)
        link.end_after_replies(
            CloseReason.AUTHENTICATION_OVERLOADED, "too many passwords wait for verification"
        )

    def _give(self, exchange: ObservedExchange, found: Answer, now_ms: int) -> None:
        """Send an answer, in its turn; that to a failure after a delay."""
        link = self._link
        if found.outcome is Step.FAILED:
            self._on_failed(exchange, found, now_ms)
            return
        if found.outcome is Step.SUCCEEDED:
            self._on_succeeded(now_ms)
        answer(link, exchange, found.body, now_ms)
        mutes.unmute(link, Mute.UPSTREAM_AUTH)

    def _on_succeeded(self, now_ms: int) -> None:
        link, authentication = self._link, self._authentication
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if authentication.expires_ms:
            self._expiry = link.shared.timers.arm(authentication.expires_ms, self._on_expired)
        user, proof = intern(authentication.user), intern(authentication.proof)
        told = replace(link.peer, user=user, principal_source="sasl", proof=proof)
        if told == link.peer:
            link.plans.clear()
        else:
            link.become(told)

    def _on_expired(self, now_ms: int) -> None:
        """Allow no request but a re-authentication (KIP-368). The connection stays until another one comes."""
        self._expiry = None
        self._authentication.is_expired = True
        self._link.plans.clear()

    def _on_failed(self, exchange: ObservedExchange, found: Answer, now_ms: int) -> None:
        link, authentication = self._link, self._authentication
        link.shared.auth_failures += 1
        link.shared.observer.on_authentication_failed(
            link.peer,
            AuthenticationFailure(
                authentication.mechanism, authentication.claimed, found.why, now_ms
            ),
        )
        self._unanswered = exchange
        mutes.mute_after_request(link, Mute.UPSTREAM_AUTH)

        def close(now_ms: int) -> None:
            self._timer = None
            if link.ended:
                return
            self._unanswered = None
            try:
                answer(link, exchange, found.body, now_ms)
            except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
                link.fail_and_ask_for_turn(fault)
            else:
                link.end_after_replies(CloseReason.AUTHENTICATION_FAILED, found.why)
                link.ask_for_turn()

        self._timer = link.shared.timers.arm(now_ms + FAILURE_DELAY_MS, close)

    # -- the end ---------------------------------------------------------------------------------

    def release(self, now_ms: int) -> None:
        """Complete the request that is not answered, because the session is closed."""
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()
        self._timer = self._expiry = None
        unanswered, self._unanswered = self._unanswered, None
        if unanswered is not None:
            self._link.complete(unanswered, Outcome.DISCONNECTED, now_ms, forwarded=False)
