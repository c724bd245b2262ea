"""A broker's side of SASL in memory, honest or lying: takes request frames, returns reply frames."""

import struct
from dataclasses import dataclass, field
from typing import Final

from proxy.core.auth import scram
from tests.support.messages import frames as f
from tests.support.messages import sasl
from wire.sasl import auth_bytes, mechanism, plain_names

SALT: Final = b"salt-of-the-broker"
ITERATIONS: Final = 4096
TOKEN: Final = "header.payload.signature"  # noqa: S105 - not a secret
OFFERED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(slots=True)
class SaslBroker:
    """Knows one user and one token. `lies` replaces the n-th reply frame (from 0) of all that it sends.

    `authenticated` counts the successes, `refused` the failures, `heard` has the (key, correlation id) of requests.
    """

    username: str = "sluice"
    password: str = "s3cret"  # noqa: S105 - not a secret
    lifetime_ms: int = 0
    offered: tuple[str, ...] = OFFERED
    lies: dict[int, bytes] = field(default_factory=dict)
    authenticated: int = 0
    refused: int = 0
    heard: list[tuple[int, int]] = field(default_factory=list)
    _mechanism: str = ""
    _first: scram.ClientFirst | None = None
    _challenged: str = ""
    _dismissed: bool = False

    def answer(self, request: bytes) -> bytes:
        """Return the reply frame to a whole SaslHandshake or SaslAuthenticate request frame."""
        size, key, version, correlation_id, named = struct.unpack_from(">ihhih", request)
        assert size == len(request) - 4
        assert version == 1
        body = request[14 + named :]
        self.heard.append((key, correlation_id))
        if key == f.SASL_HANDSHAKE:
            reply = self._on_handshake(correlation_id, mechanism(body))
        else:
            assert key == f.SASL_AUTHENTICATE
            reply = self._on_token(correlation_id, auth_bytes(body, 1))
        return self.lies.get(len(self.heard) - 1, reply)

    def _on_handshake(self, correlation_id: int, name: str) -> bytes:
        self._mechanism, self._first, self._dismissed = name, None, False
        code = 0 if name in self.offered else sasl.UNSUPPORTED
        names = b"".join(f.string(each) for each in self.offered)
        return f.reply(correlation_id, struct.pack(">hi", code, len(self.offered)) + names)

    def _on_token(self, correlation_id: int, token: bytes) -> bytes:
        if self._mechanism == "PLAIN":
            known = plain_names(token).authcid == self.username
            known = known and token.split(b"\0")[2] == self.password.encode()
            return self._end(correlation_id, known=known)
        if self._mechanism == "OAUTHBEARER":
            if self._dismissed:
                assert token == b"\x01"
                return self._end(correlation_id, known=False)
            if token == f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode():
                return self._end(correlation_id, known=True)
            self._dismissed = True
            return self._reply(correlation_id, b'{"status":"invalid_token","scope":""}')
        return self._on_scram(correlation_id, token)

    def _on_scram(self, correlation_id: int, token: bytes) -> bytes:
        kind = scram.MECHANISMS[self._mechanism]
        if self._first is None:
            self._first = scram.read_client_first(token)
            self._challenged = scram.server_first(self._first.nonce + "XYZ", SALT, ITERATIONS)
            return self._reply(correlation_id, self._challenged.encode())
        final = scram.read_client_final(token)
        salted = scram.salted_password(kind, self.password.encode(), SALT, ITERATIONS)
        keys = scram.stored_keys(kind, salted)
        signed = scram.auth_message(self._first.bare, self._challenged, final.bare)
        known = self._first.names.username == self.username and scram.is_proof(
            kind, keys.stored_key, signed, final.proof
        )
        signature = scram.server_signature(kind, keys.server_key, signed)
        return self._end(correlation_id, scram.server_final(signature).encode(), known=known)

    def _end(self, correlation_id: int, token: bytes = b"", *, known: bool) -> bytes:
        if known:
            self.authenticated += 1
            return self._reply(correlation_id, token)
        self.refused += 1
        return sasl.authenticate_reply(correlation_id, error_code=sasl.FAILED)

    def _reply(self, correlation_id: int, token: bytes) -> bytes:
        body = sasl.authenticate_body(token, lifetime_ms=self.lifetime_ms)
        return f.reply(correlation_id, body)
