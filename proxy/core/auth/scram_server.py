"""The server's side of one SCRAM exchange (RFC 5802), as Kafka's `ScramSaslServer` does it.

An unknown user gets a challenge too, with keys that no password has: it fails at the same message as a wrong password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.auth import scram

if TYPE_CHECKING:
    from proxy.core.auth.stored_users import Users


class ScramExchange:
    """One exchange. `challenge` is the answer to the client's first message."""

    __slots__ = (
        "_channel",
        "_client_first",
        "_exists",
        "_keys",
        "_nonce",
        "_server_first",
        "challenge",
        "has_other_authzid",
        "user",
    )

    def __init__(self, mechanism: str, users: Users, nonce: str, token: bytes) -> None:
        """Read the client's first message. Raises ScramError if it is malformed, or names a delegation token."""
        first = scram.read_client_first(token)
        if first.names.by_token:
            raise scram.ScramError("delegation tokens are not supported")
        self.user = first.names.username
        self.has_other_authzid = first.names.authzid not in ("", self.user)
        self._keys, self._exists = users.find(self.user, mechanism)
        self._client_first = first.bare
        self._channel = token[: len(token) - len(first.bare.encode())]
        self._nonce = first.nonce + nonce
        self._server_first = scram.server_first(self._nonce, self._keys.salt, self._keys.iterations)
        self.challenge = self._server_first.encode()

    def is_current(self, users: Users) -> bool:
        """Return whether the user still has the keys that the exchange began with."""
        return users.find(self.user, self._keys.mechanism.name) == (self._keys, self._exists)

    def maybe_verify(self, token: bytes) -> bytes | None:
        """Return the server's last message if the client's last one proves the password; None if it does not.

        Raises ScramError if it is malformed.
        """
        last = scram.read_client_final(token)
        mechanism, _, stored_key, server_key, _ = self._keys
        signed = scram.auth_message(self._client_first, self._server_first, last.bare)
        is_right = scram.is_proof(mechanism, stored_key, signed, last.proof)
        if not (is_right and self._exists):
            return None
        if last.nonce != self._nonce or last.channel != self._channel:
            return None
        return scram.server_final(scram.server_signature(mechanism, server_key, signed)).encode()
