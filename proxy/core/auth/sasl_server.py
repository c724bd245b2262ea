"""Authenticates clients as a Kafka broker does: the SASL exchange of one connection, without a socket or a clock.

- Before success only ApiVersions and SaslHandshake are allowed, after a handshake only SaslAuthenticate.
- A client with a wrong password and one with an unknown user get the same replies, after the same work.
- A failure is answered with Kafka's error, later (FAILURE_DELAY_MS), and the connection is closed then.
- With `max_reauth_ms` an authentication holds that long (KIP-368). A client may authenticate again on the same
  connection, once a second at most, by the same mechanism and as the same user. One that sends another request after
  that time is disconnected.
- An exchange whose user is removed, or gets other keys, before it ends has failed.
- A login by token (OAUTHBEARER) ends with its token: then the client must authenticate again by another one. A refused
  token is answered in two steps (RFC 7628): the reason, and Kafka's error once the client has dismissed it.
- Delegation tokens are not known here.

Differences from Kafka: a second ApiVersions is allowed before the handshake, because the broker may have refused the
version of the first one; and a request of another API after a handshake ends the connection without a reply.
Sources: Kafka's `SaslServerAuthenticator`, `PlainSaslServer`, `ScramSaslServer`, `OAuthBearerSaslServer`,
`SocketServer`; KIP-43, 152, 255, 368.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from proxy.core.auth.bearer_tokens import TokenFault, Unjudged
from proxy.core.auth.sasl_answers import Answer, Step, UncheckedPassword, UncheckedToken
from proxy.core.auth.scram import ScramError
from proxy.core.auth.scram_server import ScramExchange
from proxy.core.errors import CloseReason, PrincipalChangedError, SessionFault
from wire import oauthbearer, sasl
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.sasl import authenticate_body, handshake_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.bearer_tokens import BearerTokens, TokenFacts
    from proxy.core.auth.passwords import Passwords
    from proxy.core.auth.stored_users import Users

FAILURE_DELAY_MS: Final = 100
"""The time until a failure is answered (Kafka: connection.failed.authentication.delay.ms)."""
MIN_REAUTH_INTERVAL_MS: Final = 1000
MAX_API_VERSIONS: Final = 3
"""ApiVersions requests before the handshake: one that is newer than offered, one that the broker refuses, one more."""
MAX_SHOWN_CHARS: Final = 249

MAX_TOKEN_SESSION_MS: Final = 7 * 24 * 3_600_000
"""A token that holds longer is shown again by then."""

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
_AFTER_SUCCESS: Final = "SaslAuthenticate request received after successful authentication"
_WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"  # noqa: S105 - Kafka's words
_OTHER_AUTHZID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_OTHER_OWNER: Final = (
    "Authentication failed: Client requested an authorization id ({}) that is different from the token's principal "
    "name ({})"
)


class AuthenticationRequiredError(SessionFault):
    """The client sent a request that is not allowed before it is authenticated."""

    reason = CloseReason.AUTHENTICATION_REQUIRED


class SessionExpiredError(SessionFault):
    """The client did not authenticate again before its time was over (KIP-368)."""

    reason = CloseReason.SESSION_EXPIRED


@dataclass(slots=True)
class SaslServer:
    """The state that all connections share. `users` is replaced when its file has changed, `tokens`: of OAUTHBEARER.

    `nonce` returns a new random text of printable ASCII without commas.
    """

    mechanisms: tuple[str, ...]
    users: Users
    passwords: Passwords
    nonce: Callable[[], str]
    max_reauth_ms: int = 0
    tokens: BearerTokens | None = None


class _SaslState(Enum):
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DISMISSAL = "dismissal"
    CHECKING = "checking"
    COMPLETE = "complete"
    BAD_MECHANISM = "bad mechanism"
    FAILED = "failed"


class Authentication:
    """The authentication of one connection. `user` is "" until it has succeeded for the first time.

    `expires_ms`: when the client must have authenticated again; 0: never. `claimed`: the user's name in the last
    attempt, which may be anything. `groups`: those that the token of the last login names.
    """

    __slots__ = (
        "_api_versions",
        "_begun_ms",
        "_lifetime_ms",
        "_mechanism",
        "_scram",
        "_server",
        "_state",
        "_tried",
        "_why",
        "claimed",
        "expires_ms",
        "groups",
        "is_expired",
        "user",
    )

    def __init__(self, server: SaslServer) -> None:
        self._server = server
        self._state = _SaslState.HANDSHAKE
        self._api_versions = 0
        self._mechanism = ""  # by which `user` has authenticated
        self._tried = ""  # the mechanism of the attempt that runs, or of the last one
        self._scram: ScramExchange | None = None
        self._begun_ms: int | None = None  # the last re-authentication
        self._why = ""  # a token is refused
        self._lifetime_ms = 0
        self.user = ""
        self.groups: frozenset[str] = frozenset()
        self.claimed = ""
        self.expires_ms = 0
        self.is_expired = False

    @property
    def is_open(self) -> bool:
        """Whether the client may send any request."""
        return self._state is _SaslState.COMPLETE and not self.is_expired

    @property
    def is_by_token(self) -> bool:
        """Whether `user` has authenticated by a token."""
        return self._mechanism == OAUTHBEARER

    @property
    def proof(self) -> str:
        """Return how `user` was proved, as `policies.api.Peer.proof`."""
        tokens = self._server.tokens
        if self.is_by_token and tokens is not None:
            return tokens.proof
        return f"sasl:{self._mechanism}"

    @property
    def mechanism(self) -> str:
        """Return the mechanism of the last handshake; "" before it."""
        return self._tried

    # -- which requests may come -----------------------------------------------------------------

    def check(self, api_key: int, api_name: str, now_ms: int) -> None:
        """Do nothing if a request of this API is allowed now. It may be asked several times for one request.

        Raises: AuthenticationRequiredError; SessionExpiredError; PrincipalChangedError after a re-authentication was
        begun by another mechanism.
        """
        state = self._state
        if state is _SaslState.COMPLETE:
            if self.is_expired and not (
                api_key == ApiKey.SASL_HANDSHAKE and self._may_begin_again(now_ms)
            ):
                raise SessionExpiredError(
                    f"{api_name} after {self._lifetime_ms} ms without re-authentication"
                )
        elif state is _SaslState.HANDSHAKE:
            if api_key == ApiKey.API_VERSIONS and self._api_versions < MAX_API_VERSIONS:
                return
            if api_key != ApiKey.SASL_HANDSHAKE:
                raise AuthenticationRequiredError(f"{api_name} before SaslHandshake")
        elif state is _SaslState.BAD_MECHANISM:
            raise PrincipalChangedError(
                f"{_shown(self.user)} re-authenticates by {self._tried}, before by {self._mechanism}"
            )
        elif api_key not in {ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE}:
            raise AuthenticationRequiredError(f"{api_name} during SASL authentication")

    def on_api_versions(self) -> None:
        """Count an ApiVersions request."""
        self._api_versions += 1

    # -- SaslHandshake ---------------------------------------------------------------------------

    def on_handshake(self, body: bytes, now_ms: int) -> Answer:
        """Return the answer to a SaslHandshake v1. Raises WireError if it is malformed."""
        mechanism = sasl.mechanism(body)
        if self._state is _SaslState.COMPLETE:
            if not self._may_begin_again(now_ms):
                return Answer(handshake_body(ErrorCode.ILLEGAL_SASL_STATE))
            self._begun_ms = now_ms
        elif self._state is not _SaslState.HANDSHAKE:
            self._state = _SaslState.FAILED
            why = "SaslHandshake during SASL authentication"
            return Answer(handshake_body(ErrorCode.ILLEGAL_SASL_STATE), Step.FAILED, why)
        offered = self._server.mechanisms
        if mechanism not in offered:
            self._state = _SaslState.FAILED
            body = handshake_body(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            why = f"mechanism {_shown(mechanism)} is not one of {', '.join(offered)}"
            return Answer(body, Step.FAILED, why)
        self._tried = mechanism
        self.claimed = ""
        self._scram = None
        is_other = bool(self.user) and mechanism != self._mechanism
        self._state = _SaslState.BAD_MECHANISM if is_other else _SaslState.TOKENS
        return Answer(handshake_body(ErrorCode.NONE, offered))

    def _may_begin_again(self, now_ms: int) -> bool:
        interval_ms = MIN_REAUTH_INTERVAL_MS
        if self.is_by_token:  # it may end sooner
            interval_ms = min(interval_ms, self._lifetime_ms // 2)
        return bool(self.expires_ms) and (
            self._begun_ms is None or now_ms - self._begun_ms >= interval_ms
        )

    # -- SaslAuthenticate ------------------------------------------------------------------------

    def on_token(
        self, body: bytes, version: int, now_ms: int
    ) -> Answer | UncheckedPassword | UncheckedToken:
        """Return the answer to a SaslAuthenticate (v0 to v2), or the password or token to verify first.

        Raises WireError if it is malformed.
        """
        token = sasl.auth_bytes(body, version)
        if self._state is _SaslState.COMPLETE:
            code = ErrorCode.ILLEGAL_SASL_STATE
            return Answer(authenticate_body(version, error_code=code, message=_AFTER_SUCCESS))
        if self._tried == PLAIN:
            return self._on_plain(token, version, now_ms)
        if self._tried == OAUTHBEARER:
            return self._on_bearer(token, version, now_ms)
        return self._on_scram(token, version, now_ms)

    def _on_plain(self, token: bytes, version: int, now_ms: int) -> Answer | UncheckedPassword:
        parts = token.split(b"\0")
        if len(parts) != 3:
            words = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            return self._fail(version, words)
        try:
            authzid, user = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            return self._fail(version, _WRONG_PASSWORD, "the user's name is not valid UTF-8")
        self.claimed = user
        if not user:
            return self._fail(version, "Authentication failed: username not specified")
        if not parts[2]:
            return self._fail(version, "Authentication failed: password not specified")
        if authzid not in ("", user):
            return self._fail(version, _OTHER_AUTHZID)
        credential, exists = self._server.users.find_any(user)
        if exists and self._server.passwords.is_known(user, parts[2], credential):
            return self._succeed(user, version, now_ms)
        self._state = _SaslState.CHECKING
        return UncheckedPassword(user, parts[2], credential, exists, version)

    def on_checked(self, pending: UncheckedPassword, now_ms: int, *, is_right: bool) -> Answer:
        """Return the answer to the SaslAuthenticate whose password was verified."""
        current = self._server.users.find_any(pending.user)
        if is_right and pending.exists and current == (pending.credential, True):
            return self._succeed(pending.user, pending.version, now_ms)
        return self._fail(pending.version, _WRONG_PASSWORD)

    def _on_scram(self, token: bytes, version: int, now_ms: int) -> Answer:
        try:
            if self._scram is None:
                scram = ScramExchange(self._tried, self._server.users, self._server.nonce(), token)
                self._scram = scram
                self.claimed = scram.user
                if scram.has_other_authzid:
                    return self._fail(version, _OTHER_AUTHZID)
                return Answer(authenticate_body(version, scram.challenge))
            signature = self._scram.maybe_verify(token)
        except ScramError as error:
            return self._fail(version, self._invalid(), str(error))
        if signature is None:
            return self._fail(version, self._invalid(), "wrong user or password")
        if not self._scram.is_current(self._server.users):
            return self._fail(version, self._invalid(), "the password has changed meanwhile")
        return self._succeed(self.claimed, version, now_ms, signature)

    def _on_bearer(self, message: bytes, version: int, now_ms: int) -> Answer | UncheckedToken:
        tokens = self._server.tokens
        if self._state is _SaslState.DISMISSAL:
            is_dismissed = message == oauthbearer.DISMISSED
            words = oauthbearer.TOKEN_REFUSED if is_dismissed else self._invalid()
            return self._fail(version, words, self._why)
        try:
            authzid, token = oauthbearer.bearer_message(message)
        except WireError as error:
            return self._fail(version, self._invalid(), str(error))
        self._state = _SaslState.CHECKING
        pending = UncheckedToken(token, authzid, version)
        facts = None if tokens is None else tokens.find(token)
        return pending if facts is None else self.on_token_checked(pending, facts, now_ms)

    def on_token_checked(
        self, pending: UncheckedToken, said: TokenFacts | TokenFault, now_ms: int
    ) -> Answer:
        """Return the answer to the SaslAuthenticate whose token was checked."""
        tokens = self._server.tokens
        if tokens is None or isinstance(said, TokenFault):
            why = said.why if isinstance(said, TokenFault) else Unjudged.NO_KEYS.value
        else:
            self.claimed = said.user
            why = tokens.fault_at(said, now_ms)
            if not why:
                if pending.authzid not in ("", said.user):
                    words = _OTHER_OWNER.format(_cut(pending.authzid), _cut(said.user))
                    return self._fail(pending.version, words)
                left_ms = min(tokens.left_ms(said, now_ms), MAX_TOKEN_SESSION_MS)
                self.groups = said.groups
                return self._succeed(said.user, pending.version, now_ms, left_ms=left_ms)
        self._why = f"the token is refused: {why}"
        self._state = _SaslState.DISMISSAL
        body = authenticate_body(pending.version, oauthbearer.TOKEN_REFUSED.encode())
        return Answer(body, Step.REFUSED, self._said(self._why))

    def _invalid(self) -> str:
        kind = "re-authentication" if self.user else "authentication"
        return f"Authentication failed during {kind} due to invalid credentials with SASL mechanism {self._tried}"

    # -- the result ------------------------------------------------------------------------------

    def _succeed(
        self, user: str, version: int, now_ms: int, token: bytes = b"", left_ms: int = 0
    ) -> Answer:
        """Return the answer to a success; `left_ms`: how long its credential holds, 0 for ever."""
        if self.user and user != self.user:
            words = "Cannot change principals during re-authentication from User.{}: User.{}"
            return self._fail(version, words.format(_cut(self.user), _cut(user)))
        self.user, self._mechanism = user, self._tried
        self._state, self._scram = _SaslState.COMPLETE, None
        lifetime_ms = self._server.max_reauth_ms
        if left_ms:
            lifetime_ms = min(lifetime_ms or left_ms, left_ms)
        self._lifetime_ms = lifetime_ms
        self.expires_ms = now_ms + lifetime_ms if lifetime_ms else 0
        self.is_expired = False
        return Answer(authenticate_body(version, token, lifetime_ms), Step.SUCCEEDED)

    def _fail(self, version: int, message: str, why: str = "") -> Answer:
        """Return the answer to a failure. `why` is for the operator, if the client must not know it."""
        self._state, self._scram = _SaslState.FAILED, None
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        body = authenticate_body(version, error_code=code, message=message)
        return Answer(body, Step.FAILED, self._said(why or message))

    def _said(self, why: str) -> str:
        return f"{self._tried}, user {_shown(self.claimed)}: {why}"


def _cut(name: str) -> str:
    return name[:MAX_SHOWN_CHARS]


def _shown(name: str) -> str:
    return repr(_cut(name))
