"""The client's principal, read from the SASL requests and replies that pass through unchanged.

A name counts only after the broker has accepted it and the mechanism is complete:

- PLAIN: the first success reply. The name is the authcid; an authzid must be empty or the same.
- SCRAM-*: the success reply to the second token, if it has the server's signature (`v=`). By delegation
  token (`tokenauth=true`) the name is a token's id; the user is its owner, if a reply has told it (`token_owners`).
- OAUTHBEARER: the first success reply, if it is empty; otherwise it has the broker's error. The name is a claim of
  the token, which the broker has validated; an opaque token has none.
- GSSAPI and other mechanisms: the first success reply; the proxy cannot see when these are complete.

If the broker accepts a client whose name cannot be read, the user is UNKNOWN. Once set, the principal stays for
the life of the connection: Kafka lets a re-authentication (KIP-368) change neither user nor
mechanism, so a re-authentication that does ends the session. One that names the user of an UNKNOWN tells who it was
from the beginning. Names are kept, never a password, token or proof.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from proxy.core.errors import PrincipalChangedError
from wire import sasl
from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.oauthbearer import bearer_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

UNKNOWN: Final = "UNKNOWN"
"""The user if the broker accepted the client and only the broker knows its name."""
MAX_NAME_CHARS: Final = 1024
"""A longer name (of a user or a mechanism) is not kept; it counts as one that cannot be read."""

NO_OWNERS: Final[Mapping[str, str]] = MappingProxyType({})
"""No token's owner is known."""

_SCRAM: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})


@dataclass(frozen=True, slots=True)
class Principal:
    """The user that the broker has authenticated. `source` as in `policies.api.Peer.principal_source`."""

    user: str
    source: Literal["sasl", "unknown"]


class _Attempt:
    """One handshake and the tokens after it."""

    __slots__ = ("mechanism", "over", "tokens_answered", "tokens_sent", "user")

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism if len(mechanism) <= MAX_NAME_CHARS else ""
        self.over = False  # complete or refused
        self.tokens_sent = 0
        self.tokens_answered = 0
        self.user: str | None = None


class Identity:
    """The principal of one connection. It is told of every forwarded SASL request and of every reply, in order.

    `principal` is None until the broker has authenticated the client. `claim` is the name of the claim that names the
    user of OAUTHBEARER (Kafka: sasl.oauthbearer.sub.claim.name); "": none does. `owners`: user by the id of a
    delegation token.
    """

    __slots__ = ("_asked", "_claim", "_current", "_mechanism", "_owners", "_waiting", "principal")

    def __init__(self, claim: str = "", owners: Mapping[str, str] = NO_OWNERS) -> None:
        self.principal: Principal | None = None
        self._claim = claim
        self._owners = owners
        self._mechanism = ""  # by which `principal` was set
        self._asked: _Attempt | None = None  # the newest; the next token belongs to it
        self._waiting: deque[_Attempt] = deque()  # their handshakes are not answered yet
        self._current: _Attempt | None = None  # the newest whose handshake is answered

    @property
    def authenticating(self) -> bool:
        """Whether a SASL exchange has begun and is neither complete nor refused."""
        if self._waiting:
            return True
        return self._current is not None and not self._current.over

    @property
    def ends_visibly(self) -> bool:
        """Whether the end of the current exchange is certain, as far as `authenticating` says so."""
        current = self._current
        return current is not None and (
            current.mechanism in _SCRAM or current.mechanism in {"PLAIN", "OAUTHBEARER"}
        )

    @property
    def proof(self) -> str:
        """Return how the broker has made sure of `principal`, as `policies.api.Peer.proof`; "" if it has no name."""
        if self.principal is None or self.principal.source != "sasl":
            return ""
        return "claim" if self._mechanism == "OAUTHBEARER" else f"sasl:{self._mechanism}"

    @property
    def mechanism(self) -> str:
        """Return the mechanism of the newest handshake; "" before it."""
        return "" if self._asked is None else self._asked.mechanism

    # -- by bodies: what the session calls -------------------------------------------------------

    def on_sasl_request(self, api_key: int, api_version: int, body: bytes) -> None:
        """Read the body of a SaslHandshake or SaslAuthenticate that is forwarded to the broker.

        A body that cannot be read passes too: the broker refuses it.
        """
        if api_key == ApiKey.SASL_HANDSHAKE:
            try:
                mechanism = sasl.mechanism(body)
            except WireError:
                mechanism = ""
            self.on_handshake(mechanism)
        elif api_key == ApiKey.SASL_AUTHENTICATE:
            try:
                token = sasl.auth_bytes(body, api_version)
            except WireError:
                token = b""
            self.on_token(token)

    def on_sasl_reply(self, api_key: int, api_version: int, body: bytes) -> Principal | None:
        """Read the broker's reply to the oldest of these requests; return the principal if it completes the exchange.

        Raises: PrincipalChangedError (see `on_token_reply`); WireError for a malformed reply.
        """
        if api_key == ApiKey.SASL_HANDSHAKE:
            self.on_handshake_reply(sasl.handshake_error(body))
        elif api_key == ApiKey.SASL_AUTHENTICATE:
            reply = sasl.authenticate_reply(body, api_version)
            return self.on_token_reply(reply.error_code, reply.auth_bytes)
        return None

    # -- by what they say ------------------------------------------------------------------------

    def on_handshake(self, mechanism: str) -> None:
        """Note the mechanism of a SaslHandshake request; "" if it cannot be read."""
        self._asked = _Attempt(mechanism)
        self._waiting.append(self._asked)

    def on_handshake_reply(self, error_code: int) -> None:
        """Take the error code of a SaslHandshake reply. A refusal leaves an earlier principal as it is."""
        if self._waiting:
            self._current = self._waiting.popleft()
            self._current.over = error_code != 0

    def on_token(self, auth_bytes: bytes) -> None:
        """Take the name from the client's first token; nothing else of a token is kept."""
        attempt = self._asked
        if attempt is None:
            return
        attempt.tokens_sent += 1
        if attempt.tokens_sent == 1:
            attempt.user = self._name_in(attempt.mechanism, auth_bytes)

    def on_token_reply(self, error_code: int, auth_bytes: bytes) -> Principal | None:
        """Take the broker's reply to a token; return the principal if it completes the exchange, else None.

        Raises: PrincipalChangedError when the broker accepts another user or mechanism than before (KIP-368).
        """
        attempt = self._current
        if attempt is None:
            return None
        attempt.tokens_answered += 1
        if error_code:
            attempt.over = True
        if attempt.over or not _is_complete(attempt, auth_bytes):
            return None
        attempt.over = True
        user = attempt.user
        found = Principal(UNKNOWN, "unknown") if user is None else Principal(user, "sasl")
        if self.principal is None:
            self.principal = found
            self._mechanism = attempt.mechanism
        else:
            self._ensure_unchanged(self.principal, found, attempt.mechanism)
            if self.principal.source == "unknown":
                self.principal = found
        return self.principal

    def _name_in(self, mechanism: str, token: bytes) -> str | None:
        """Return the user named in the first token of an exchange; None if it cannot be read."""
        name: str | None
        try:
            if mechanism == "PLAIN":
                authzid, name = sasl.plain_names(token)
            elif mechanism in _SCRAM:
                authzid, name, by_token = sasl.scram_first(token)
                if (
                    by_token
                ):  # the broker acts as the owner, and refuses an authzid that is not the id
                    return self._owners.get(name)
            elif mechanism == "OAUTHBEARER" and self._claim:
                authzid, name = bearer_names(token, self._claim)
            else:
                return None
        except WireError:
            return None
        if name is None or authzid not in ("", name) or len(name) > MAX_NAME_CHARS:
            return None
        return name

    def _ensure_unchanged(self, before: Principal, found: Principal, mechanism: str) -> None:
        """Raise PrincipalChangedError as the broker would (KIP-368). UNKNOWN and a name are not compared."""
        if mechanism != self._mechanism:
            raise PrincipalChangedError(
                f"{_shown(before.user)} re-authenticated by {_shown(mechanism)}, "
                f"before by {_shown(self._mechanism)}"
            )
        if found.user != before.user and found.source == before.source == "sasl":
            raise PrincipalChangedError(
                f"{_shown(before.user)} re-authenticated as {_shown(found.user)}"
            )


def _is_complete(attempt: _Attempt, auth_bytes: bytes) -> bool:
    """Return whether the success reply to the newest answered token completes the exchange; PLAIN's first does."""
    if attempt.mechanism in _SCRAM:
        return attempt.tokens_answered == 2 and auth_bytes.startswith(sasl.SCRAM_FINAL)
    if attempt.mechanism == "OAUTHBEARER":
        return attempt.tokens_answered == 1 and not auth_bytes
    return True


def _shown(name: str) -> str:
    return repr(name[:249])
