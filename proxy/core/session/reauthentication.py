"""Sluice's own authentication of one session's broker connection is renewed before its lifetime ends (KIP-368).

Rules:
- It begins at 85 to 95 % of the lifetime, as in Kafka's client. First the shell provides the credentials, which may
  take time (a token); the session works on meanwhile. If there are none, they are asked for again.
- Our SaslHandshake is sent between two requests. From then on until success the client is muted, because a broker
  accepts nothing else. Replies to earlier requests may come first, however long they take: the broker does not read
  our SaslHandshake before, and judges no lifetime until the next request.
- If the SaslHandshake cannot be sent before the lifetime ends (a request streams slowly, or there are no credentials),
  the session takes no more requests and ends after its replies. A held request is no obstacle: it has not begun.
- Once all earlier replies have come, the broker has `upstream.request_timeout_ms` for each answer of its own, ANSWER_MS
  if that is 0; at most twice as long.
- If the broker refuses, the session ends, as the broker ends it. After that, further sessions to the same broker wait
  (`Custodian.prepare`), so that many connections do not lock an account.
- A session that ends anyway is not renewed.

Source: KIP-368; Kafka's `SaslClientAuthenticator.ReauthInfo`, `KafkaChannel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import (
    CloseReason,
    UpstreamAuthenticationError,
    UpstreamSessionExpiredError,
)
from proxy.core.session import mutes, questions
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import ProxyExchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.upstream_authentication import UpstreamAuthentication
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.link import Link

EARLIEST: Final = 0.85
JITTER: Final = 0.10
"""The part of the lifetime after which it is renewed: EARLIEST and up to JITTER more (Kafka's figures)."""
MIN_INTERVAL_MS: Final = 1_000
"""A broker refuses to be asked more often."""
MAX_LIFETIME_MS: Final = 7 * 24 * 3_600_000
"""A longer lifetime is renewed as if it were this one."""
RETRY_MS: Final = 1_000
ANSWER_MS: Final = 30_000
"""Kafka's default of request.timeout.ms in clients."""


class Custodian(Protocol):
    """The part of the shell, which has the credentials, random numbers and threads."""

    def prepare(self, address: str, ready: Callable[[UpstreamAuthentication | str], None]) -> None:
        """Call `ready` with an authentication at this broker, or with the reason why there is none now."""

    def work(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do the work in a thread, then call `done`."""

    def on_refused(self, address: str, why: str) -> None:
        """Note that this broker has refused the credentials."""

    def jitter(self) -> float:
        """Return a random number from 0 to 1."""


class Reauthentication:
    """The renewals of one session. `release` ends them."""

    __slots__ = (
        "_address",
        "_authentication",
        "_custodian",
        "_expires_ms",
        "_link",
        "_owed_id",
        "_timer",
        "_why",
    )

    def __init__(self, link: Link, custodian: Custodian, address: str) -> None:
        self._link: Link | None = link
        self._custodian = custodian
        self._address = address
        self._authentication: UpstreamAuthentication | None = None  # that is under way
        self._expires_ms = 0
        self._owed_id = 0  # of our question that no other one stands before, at the last look
        self._why = ""  # there are no credentials
        self._timer: Timer | None = None

    def begin(self, lifetime_ms: int, now_ms: int) -> None:
        """Renew an authentication that holds for `lifetime_ms` from now on; 0: for ever."""
        if lifetime_ms <= 0 or self._link is None:
            return
        lifetime_ms = min(lifetime_ms, MAX_LIFETIME_MS)
        part = EARLIEST + JITTER * self._custodian.jitter()
        renew_ms = now_ms + max(int(lifetime_ms * part), MIN_INTERVAL_MS)
        self._expires_ms = max(now_ms + lifetime_ms, renew_ms + RETRY_MS)
        self._arm(renew_ms, self._on_due)

    def release(self) -> None:
        """Renew no more, because the session is closed."""
        self._link = self._authentication = None
        self._disarm()

    def _arm(self, at_ms: int, call: Callable[[int], None]) -> None:
        self._disarm()
        if self._link is not None:
            self._timer = self._link.shared.timers.arm(at_ms, call)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- before the first question -------------------------------------------------------------------

    def _on_due(self, now_ms: int) -> None:
        link = self._link
        if link is None or link.ending:
            return
        self._look_later(now_ms)
        self._custodian.prepare(self._address, self._on_prepared)

    def _on_prepared(self, found: UpstreamAuthentication | str) -> None:
        link = self._link
        if link is None or link.ending or self._authentication is not None:
            return
        if isinstance(found, str):
            self._why = found
            again_ms = link.shared.now_ms + RETRY_MS
            if again_ms < self._expires_ms:
                self._arm(again_ms, self._on_due)
            return
        self._authentication = found
        if link.request_left:
            mutes.mute_after_request(link, Mute.UPSTREAM_REAUTH)
        else:  # not even a request that was read may begin
            mutes.mute_now(link, Mute.UPSTREAM_REAUTH)
        self._ask(found)
        link.ask_for_turn()

    # -- deadlines -----------------------------------------------------------------------------------

    def _look_later(self, now_ms: int) -> None:
        """Look again after the time for an answer; before our first question is sent, at the end of the lifetime."""
        link = self._link
        if link is not None:
            answer_ms = now_ms + (link.shared.request_timeout_ms or ANSWER_MS)
            at_ms = min(answer_ms, self._expires_ms) if now_ms < self._expires_ms else answer_ms
            self._arm(at_ms, self._on_look)

    def _on_look(self, now_ms: int) -> None:
        """End the session if our question is not sent at the end of the lifetime, or not answered in time."""
        self._timer = None
        link, authentication = self._link, self._authentication
        if link is None or link.ending:
            return
        is_sent = authentication is not None and link.questions is None
        if not is_sent and now_ms >= self._expires_ms:
            why = self._why or "the credentials are not ready"
            if authentication is not None:
                why = f"a request was still being sent, {link.request_left} bytes were left"
            detail = (
                f"the authentication at {self._address} ended before it could be renewed: {why}"
            )
            link.fail_request_and_ask_for_turn(UpstreamSessionExpiredError(detail))
            return
        owed_id = 0
        if is_sent and authentication is not None and authentication.work is None:
            is_next = not link.queue or isinstance(link.queue[0], ProxyExchange)
            owed_id = authentication.correlation_id if is_next else 0
        if owed_id and owed_id == self._owed_id:
            detail = f"no answer to the renewed authentication at {self._address}"
            link.end_and_ask_for_turn(CloseReason.UPSTREAM_REQUEST_TIMEOUT, detail, now_ms)
            return
        self._owed_id = owed_id
        self._look_later(now_ms)

    # -- questions and answers -----------------------------------------------------------------------

    def _ask(self, authentication: UpstreamAuthentication) -> None:
        if self._link is not None:
            request = authentication.take_request()
            questions.inquire(self._link, request, authentication.correlation_id, self._on_reply)

    def _on_reply(self, frame: bytes | None) -> None:
        """Take the reply to our question; None: the connection ends. Raises SessionFault, which ends the session."""
        authentication = self._authentication
        if frame is None or authentication is None:
            self._authentication = None
            return
        try:
            authentication.on_reply(frame)
        except UpstreamAuthenticationError as fault:
            self._custodian.on_refused(self._address, str(fault))
            raise
        self._proceed(authentication)

    def _on_worked(self) -> None:
        authentication, link = self._authentication, self._link
        if authentication is None or link is None or link.ending:
            return
        try:
            authentication.resume()
        except UpstreamAuthenticationError as fault:
            self._custodian.on_refused(self._address, str(fault))
            link.fail_and_ask_for_turn(fault)
        else:
            self._proceed(authentication)
            link.ask_for_turn()

    def _proceed(self, authentication: UpstreamAuthentication) -> None:
        link = self._link
        if link is None:
            return
        if authentication.work is not None:
            self._custodian.work(authentication.work, self._on_worked)
        elif not authentication.done:
            self._ask(authentication)
        else:
            self._authentication = None
            self._why = ""
            self._owed_id = 0
            self._disarm()
            mutes.unmute(link, Mute.UPSTREAM_REAUTH)
            self.begin(authentication.session_lifetime_ms, link.shared.now_ms)
