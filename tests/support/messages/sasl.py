"""SASL written by hand, so that a test can send what no client library would.

`plain` and `scram_first` make tokens; `Scram` is a whole exchange, with its arithmetic (RFC 5802); `handshake` and
`authenticate` make the requests around them, `handshake_reply` and `authenticate_reply` what a broker answers.
"""

import base64
import hashlib
import hmac
import json
import struct
import time
from dataclasses import dataclass
from typing import Final

from tests.support.messages import frames as f

FAILED: Final = 58  # SASL_AUTHENTICATION_FAILED
UNSUPPORTED: Final = 33  # UNSUPPORTED_SASL_MECHANISM
ILLEGAL_STATE: Final = 34  # ILLEGAL_SASL_STATE
NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"
SERVER_FIRST: Final = b"r=fyko+d2lbbFgONRv9qkxdawL3rfc,s=c2FsdA==,i=4096"
SERVER_FINAL: Final = b"v=c2lnbmF0dXJl"
PROOF: Final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfc,p=cHJvb2Y="
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def plain(user: str, password: str, authzid: str = "") -> bytes:
    """A PLAIN message."""
    return f"{authzid}\0{user}\0{password}".encode()


def saslname(name: str) -> str:
    """A name with SCRAM's two escapes."""
    return name.replace("=", "=3D").replace(",", "=2C")


def scram_first(name: str, authzid: str = "", extensions: str = "") -> bytes:
    """A client's first SCRAM message; both names as they are to be written."""
    written = f"a={authzid}" if authzid else ""
    return f"n,{written},n={name},r={NONCE}{extensions}".encode()


@dataclass(slots=True)
class Scram:
    """One exchange. `name` is written as it is: escape it (`saslname`), or do not.

    A broker signs what it has understood: of an extension that is there twice, the second (`signed`).
    """

    mechanism: str
    name: str
    password: str
    authzid: str = ""
    extensions: str = ""
    signed: str | None = None

    @property
    def first(self) -> bytes:
        """The client's first message."""
        return scram_first(self.name, self.authzid, self.extensions)

    def final(self, server_first: bytes) -> bytes:
        """The client's last message: the proof, made for the server's challenge."""
        kind = _HASHES[self.mechanism]
        nonce, salt, iterations = (part[2:] for part in server_first.decode().split(",")[:3])
        header = f"n,{f'a={self.authzid}' if self.authzid else ''},"
        signed = self.extensions if self.signed is None else self.signed
        bound = base64.b64encode(header.encode()).decode()
        without_proof = f"c={bound},r={nonce}"
        salted = hashlib.pbkdf2_hmac(
            kind, self.password.encode(), base64.b64decode(salt), int(iterations)
        )
        key = hmac.digest(salted, b"Client Key", kind)
        bare = f"n={self.name},r={NONCE}{signed}"
        said = f"{bare},{server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(kind, key).digest(), said, kind)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def unsigned_token(subject: str, lives_seconds: int) -> str:
    """A token of OAUTHBEARER without a signature (RFC 7515, appendix A.5); one with a negative life is expired."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now - 3600, "exp": now + lives_seconds}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def bearer(token: str) -> bytes:
    """A client's first message of OAUTHBEARER (RFC 7628)."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def handshake(correlation_id: int, mechanism: str) -> bytes:
    """A SaslHandshake v1 request frame."""
    return f.request(f.SASL_HANDSHAKE, 1, correlation_id, f.string(mechanism))


def authenticate(correlation_id: int, token: bytes, version: int = 1) -> bytes:
    """A SaslAuthenticate request frame, v0 to v2."""
    if version < 2:
        body = struct.pack(">i", len(token)) + token
        return f.request(f.SASL_AUTHENTICATE, version, correlation_id, body)
    body = _compact(token) + b"\x00"
    return f.request(f.SASL_AUTHENTICATE, version, correlation_id, body, tagged=True)


def handshake_reply(correlation_id: int, error_code: int = 0) -> bytes:
    """A SaslHandshake v1 response frame that offers PLAIN."""
    body = struct.pack(">hi", error_code, 1) + f.string("PLAIN")
    return f.reply(correlation_id, body)


def authenticate_body(
    token: bytes = b"", error_code: int = 0, version: int = 1, lifetime_ms: int = 0
) -> bytes:
    """A SaslAuthenticate response body, v0 to v2."""
    lifetime = struct.pack(">q", lifetime_ms)
    if version < 2:
        message = f.string("no" if error_code else None)
        body = struct.pack(">h", error_code) + message + struct.pack(">i", len(token)) + token
        return body + (lifetime if version else b"")
    message = f.compact("no" if error_code else None)
    return struct.pack(">h", error_code) + message + _compact(token) + lifetime + b"\x00"


def authenticate_reply(
    correlation_id: int, token: bytes = b"", error_code: int = 0, version: int = 1
) -> bytes:
    """A SaslAuthenticate response frame."""
    body = authenticate_body(token, error_code, version)
    return f.reply(correlation_id, body, tagged=version >= 2)


def _compact(data: bytes) -> bytes:
    length = len(data) + 1
    if length < 0x80:
        return bytes([length]) + data
    return bytes([length & 0x7F | 0x80, length >> 7]) + data  # up to 16 KiB
