"""A session whose client must authenticate to Sluice itself: its SASL requests are answered here.

Rules:
- No request passes that `Authentication.check` does not allow. It is asked when a request's head has arrived.
- While a password or a token is verified, and until a failure is answered, the client is muted (UPSTREAM_AUTH).
- Replies leave in request order, also those of a re-authentication among replies of the broker.
- An exchange that is not answered when the session ends is completed then.
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING, Final

from policies.api import Outcome
from proxy.core.auth.bearer_tokens import Unjudged
from proxy.core.auth.sasl_answers import Answer, Step, UncheckedPassword
from proxy.core.auth.sasl_server import FAILURE_DELAY_MS, Authentication
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
    from collections.abc import Callable

    from proxy.core.auth.bearer_tokens import Judgement
    from proxy.core.auth.sasl_answers import UncheckedToken
    from proxy.core.auth.sasl_server import SaslServer
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from wire.apis import Api


_REASON: Final = {
    Unjudged.NO_ROOM: CloseReason.AUTHENTICATION_OVERLOADED,
    Unjudged.NO_KEYS: CloseReason.NO_TOKEN_KEYS,
}


class SaslGate:
    """The authentication of one session's client. See `SaslSide`."""

    __slots__ = (
        "_authentication",
        "_expiry",
        "_is_reported",
        "_link",
        "_server",
        "_timer",
        "_unanswered",
    )

    def __init__(self, link: Link, server: SaslServer) -> None:
        self._link = link
        self._server = server
        self._authentication = Authentication(server)
        self._unanswered: ObservedExchange | None = None  # a request that is answered later
        self._timer: Timer | None = None  # of a failure
        self._expiry: Timer | None = None
        self._is_reported = False  # the failure that ends this session

    # -- what a session asks ---------------------------------------------------------------------

    @property
    def is_authenticating(self) -> bool:
        """Whether only requests that `max_bytes` allows may pass."""
        return not self._authentication.is_open

    @property
    def user(self) -> str:
        """Return the user that has authenticated by a password; "" before that, and for one by a token."""
        return "" if self._authentication.is_by_token else self._authentication.user

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
            found: Answer | UncheckedPassword | UncheckedToken
            found = authentication.on_handshake(body, now_ms)
            self._link.plans.clear()  # a re-authentication may have begun
        else:
            found = authentication.on_token(body, api.version, now_ms)
        if isinstance(found, Answer):
            self._give(exchange, found, now_ms)
        elif isinstance(found, UncheckedPassword):
            self._verify(exchange, found)
        else:
            self._check(exchange, found)
        return True

    def _verify(self, exchange: ObservedExchange, pending: UncheckedPassword) -> None:
        def on_done(is_right: bool | None) -> None:  # noqa: FBT001 - the result itself
            def found(now_ms: int) -> Answer | Unjudged:
                if is_right is None:
                    return Unjudged.NO_ROOM
                return self._authentication.on_checked(pending, now_ms, is_right=is_right)

            self._on_verified(exchange, found)

        address = address_of(self._link.peer.host)
        passwords = self._server.passwords
        if passwords.try_check(*pending[:3], address, on_done):
            self._wait(exchange)
        else:
            self._give_up(exchange, Unjudged.NO_ROOM)

    def _check(self, exchange: ObservedExchange, pending: UncheckedToken) -> None:
        def on_done(said: Judgement) -> None:
            def found(now_ms: int) -> Answer | Unjudged:
                if isinstance(said, Unjudged):
                    return said
                return self._authentication.on_token_checked(pending, said, now_ms)

            self._on_verified(exchange, found)

        address = address_of(self._link.peer.host)
        tokens = self._server.tokens
        said: Judgement | None = Unjudged.NO_KEYS
        if tokens is not None:
            said = tokens.begin_check(pending.token, address, on_done)
        if said is None:
            self._wait(exchange)
        elif isinstance(said, Unjudged):
            self._give_up(exchange, said)
        else:
            now_ms = self._link.shared.now_ms
            found = self._authentication.on_token_checked(pending, said, now_ms)
            self._give(exchange, found, now_ms)

    def _wait(self, exchange: ObservedExchange) -> None:
        self._unanswered = exchange
        mutes.mute_after_request(self._link, Mute.UPSTREAM_AUTH)

    def _on_verified(
        self, exchange: ObservedExchange, find: Callable[[int], Answer | Unjudged]
    ) -> None:
        """Answer a request that has waited, unless its client is gone meanwhile."""
        link = self._link
        if self._unanswered is not exchange or link.ended:
            return
        self._unanswered = None
        now_ms = link.shared.now_ms
        try:
            found = find(now_ms)
            if isinstance(found, Unjudged):
                self._give_up(exchange, found)
            else:
                self._give(exchange, found, now_ms)
        except Exception as fault:  # noqa: BLE001 - others may wait for the same check
            link.fail_and_ask_for_turn(fault)
        else:
            link.ask_for_turn()

    def _give_up(self, exchange: ObservedExchange, why: Unjudged) -> None:
        """End the session without a reply: an error would tell its client that its password or token is wrong."""
        link = self._link
        link.complete(exchange, Outcome.DISCONNECTED, link.shared.now_ms, forwarded=False)
        link.end_after_replies(_REASON[why], why.value)

    def _give(self, exchange: ObservedExchange, found: Answer, now_ms: int) -> None:
        """Send an answer, in its turn; that to a failure after a delay."""
        link = self._link
        if found.outcome is Step.FAILED:
            self._on_failed(exchange, found, now_ms)
            return
        if found.outcome is Step.REFUSED:  # counted now, as the client need not dismiss it
            self._report_failure(found.why, now_ms)
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
        groups = authentication.groups
        told = replace(link.peer, user=user, principal_source="sasl", proof=proof, groups=groups)
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
        link = self._link
        if not self._is_reported:
            self._report_failure(found.why, now_ms)
        self._wait(exchange)

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

    def _report_failure(self, why: str, now_ms: int) -> None:
        link, authentication = self._link, self._authentication
        self._is_reported = True
        link.shared.auth_failures += 1
        failure = AuthenticationFailure(
            authentication.mechanism, authentication.claimed, why, now_ms
        )
        link.shared.observer.on_authentication_failed(link.peer, failure)

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
