"""The client's side of the SASL mechanisms by which Sluice authenticates to brokers.

- `first` is the initial response; `evaluate` answers a challenge, and returns None once the exchange is complete.
- Key derivation takes milliseconds, so `work_for` returns it as a call for a thread. `evaluate` then finds the key.
- A broker's words are never repeated in an error, because a hostile broker could echo a secret.

Sources: RFC 4616, RFC 5802, RFC 7628; Kafka's `PlainSaslClient`, `ScramSaslClient`, `OAuthBearerSaslClient`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.auth import scram
from proxy.core.auth.scram import ScramError
from proxy.core.errors import UpstreamAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.scram import ScramMechanism, ServerFirst

MAX_KEYS: Final = 16
OAUTH_FAILURES: Final = frozenset({"invalid_request", "invalid_token", "insufficient_scope"})
"""The reasons of RFC 6750 that are repeated in an error; any other text of a broker is not."""
TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")
"""The form of a token (RFC 6750, `b64token`)."""
_DISMISSED: Final = b"\x01"
"""The client's answer to OAUTHBEARER's failure challenge (RFC 7628, section 3.2.3)."""


class SaslClient(Protocol):
    """The client's side of one exchange. `failure`: why the broker is about to refuse; "" if it has not said so."""

    failure: str

    @property
    def mechanism(self) -> str:
        """Return the name of the mechanism."""

    def first(self) -> bytes:
        """Return the initial response."""

    def work_for(self, challenge: bytes) -> Callable[[], None] | None:
        """Return the slow work to do before `evaluate`, if there is some. Raises UpstreamAuthenticationError."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge of the broker; None if the exchange is complete.

        Raises UpstreamAuthenticationError.
        """


class PlainClient:
    """PLAIN: name and password in one message. `reveal` returns the password."""

    mechanism = "PLAIN"
    failure = ""

    def __init__(self, username: str, reveal: Callable[[], str]) -> None:
        self._username = username
        self._reveal = reveal

    def first(self) -> bytes:
        """See SaslClient."""
        return f"\0{self._username}\0{self._reveal()}".encode()

    def work_for(self, challenge: bytes) -> None:
        """See SaslClient."""

    def evaluate(self, challenge: bytes) -> None:
        """See SaslClient. The broker's success is the end."""


class SaltedKeys:
    """The keys derived from one password, by salt and number of iterations: all brokers of a cluster have the same."""

    def __init__(self, mechanism: ScramMechanism, reveal: Callable[[], str]) -> None:
        self.mechanism = mechanism
        self._reveal = reveal
        self._keys: dict[tuple[bytes, int], bytes] = {}

    def has(self, first: ServerFirst) -> bool:
        """Return whether the key for this salt is known."""
        return (first.salt, first.iterations) in self._keys

    def find(self, first: ServerFirst) -> bytes:
        """Return the key for this salt; derive it if it is not known, which takes milliseconds."""
        place = (first.salt, first.iterations)
        found = self._keys.get(place)
        if found is None:
            password = self._reveal().encode()
            found = scram.salted_password(self.mechanism, password, *place)
            while len(self._keys) >= MAX_KEYS:
                self._keys.pop(next(iter(self._keys)), None)
            self._keys[place] = found
        return found


class ScramClient:
    """SCRAM-SHA-256 and SCRAM-SHA-512. `nonce` must be unpredictable and used once; it has no comma."""

    failure = ""

    def __init__(self, username: str, keys: SaltedKeys, nonce: str) -> None:
        self._username = username
        self._keys = keys
        self._nonce = nonce
        self._signed: tuple[bytes, bytes] | None = None  # the salted password, and the auth message

    @property
    def mechanism(self) -> str:
        """See SaslClient."""
        return self._keys.mechanism.name

    def first(self) -> bytes:
        """See SaslClient."""
        bare = scram.client_first_bare(self._username, self._nonce)
        return f"{scram.GS2_HEADER}{bare}".encode()

    def work_for(self, challenge: bytes) -> Callable[[], None] | None:
        """See SaslClient."""
        if self._signed is not None:
            return None
        first = self._read(challenge)
        if self._keys.has(first):
            return None

        def derive() -> None:
            self._keys.find(first)

        return derive

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See SaslClient. The exchange is complete when the broker has proved that it knows the user's keys, too."""
        mechanism = self._keys.mechanism
        if self._signed is None:
            first = self._read(challenge)
            bare = scram.client_final_bare(first.nonce)
            ours = scram.client_first_bare(self._username, self._nonce)
            message = scram.auth_message(ours, challenge.decode(), bare)
            salted = self._keys.find(first)
            self._signed = (salted, message)
            return scram.client_final(bare, scram.client_proof(mechanism, salted, message)).encode()
        try:
            signature = scram.read_server_final(challenge)
        except ScramError as error:
            raise UpstreamAuthenticationError(str(error)) from None
        if not scram.is_signature(mechanism, *self._signed, signature):
            raise UpstreamAuthenticationError(
                "SCRAM: the broker's signature is wrong: it does not know the user's keys"
            )
        return None

    def _read(self, challenge: bytes) -> ServerFirst:
        try:
            return scram.read_server_first(challenge, self._nonce)
        except ScramError as error:
            raise UpstreamAuthenticationError(str(error)) from None


class OAuthBearerClient:
    """OAUTHBEARER: a token. `reveal` returns it."""

    mechanism = "OAUTHBEARER"

    def __init__(self, reveal: Callable[[], str]) -> None:
        self._reveal = reveal
        self.failure = ""

    def first(self) -> bytes:
        """See SaslClient. As Kafka's OAuthBearerClientInitialResponse, without extensions."""
        return f"n,,\x01auth=Bearer {self._reveal()}\x01\x01".encode()

    def work_for(self, challenge: bytes) -> None:
        """See SaslClient."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See SaslClient. A challenge that is not empty means failure; its answer makes the broker end the exchange."""
        if self.failure:
            raise UpstreamAuthenticationError(f"the broker refused the token ({self.failure})")
        if not challenge:
            return None
        self.failure = _status(challenge)
        return _DISMISSED


def _status(challenge: bytes) -> str:
    """Return the reason in a failure challenge; a general one if it names none of OAUTH_FAILURES."""
    try:
        found = json.loads(challenge)
    except (ValueError, RecursionError):
        found = None
    status = found.get("status") if isinstance(found, dict) else None
    if isinstance(status, str) and status in OAUTH_FAILURES:
        return status
    return "no known reason"
