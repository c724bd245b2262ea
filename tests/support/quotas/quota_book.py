"""Quotas in memory and a server for them, for tests of `sluice quotas`.

The server understands `SERVED`; any other request ends the connection. With `users` it requires a login (PLAIN, or
SCRAM with this module's own arithmetic), and the last login of any connection counts for all.
"""

import base64
import hashlib
import hmac
import struct
from collections.abc import Iterator, Mapping, Sequence

from policies.api import ANONYMOUS, Peer, Respond
from policies.crowd import Crowd
from policies.quota.admin import QuotaAdmin, QuotaAdminSettings
from policies.quota.alter import Change
from policies.quota.entity import ClientQuotas
from policies.quota.overrides import apply_changes, encode
from policies.quota.sensors import BucketMetrics
from policies.testing import BenchRequest
from tests.support.faults.stub_broker import CLOSE, StubBroker
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.quota_messages import ALTER, DESCRIBE
from wire.header import body_at

SERVED = {f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE, DESCRIBE, ALTER}
SALT, ITERATIONS, SERVER_NONCE = b"salt", 4096, "3rfcNHYJY1ZVvWVs7j"
_FAILED, _UNSUPPORTED = 58, 33


def peer_of(user: str) -> Peer:
    """Return a client of this user."""
    source, proof = ("none", "") if user == ANONYMOUS else ("sasl", "sasl:PLAIN")
    return Peer(1, "10.0.0.1", 1, user=user, principal_source=source, proof=proof)


class Book:
    """An AlterableQuotas whose disk can fail, and that counts the calls of `usage`."""

    def __init__(self) -> None:
        self.quotas = ClientQuotas()
        self.saved = b""
        self.fault: OSError | None = None
        self.rows = [BucketMetrics("alice", "", "request_rate", 10.0, 5.0, None, None, 2)]
        self.usages = 0

    def usage(self, now_ms: int) -> Iterator[BucketMetrics]:
        self.usages += 1
        return iter(self.rows)

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        if self.fault is not None:
            raise self.fault
        self.saved = encode(apply_changes(self.quotas.overrides, changes))
        for each in changes:
            self.quotas.set_override(*each)


class QuotaServer(StubBroker):
    """Serves a book. Without a login every client is `root`, who is an admin."""

    def __init__(
        self,
        *,
        admins: Sequence[str] = ("root",),
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        replicas: int = 1,
    ) -> None:
        super().__init__(self._serve)
        self.book = Book()
        self.user = "root" if users is None else ""
        self._admin = QuotaAdmin(
            self.book, QuotaAdminSettings(Crowd(admins, {}), replicas, False, "quota")
        )
        self._users = dict(users or {})
        self._mechanisms = mechanisms
        self._mechanism = ""
        self._scram_bare = ""
        self._scram_first = ""
        self._clock_ms = 0

    def _serve(self, request: bytes) -> bytes | None:
        key, version, ident = struct.unpack_from(">hhi", request, 4)
        if key not in SERVED or (key in {DESCRIBE, ALTER} and not self.user):
            return CLOSE
        api = api_of(key, version)
        at = body_at(request, 0, len(request), api.request_header_version)
        assert at is not None
        body = request[at:]
        if key == f.SASL_HANDSHAKE:
            return f.reply(ident, self._handshake(body))
        if key == f.SASL_AUTHENTICATE:
            code, token = self._authenticate(body[4:])
            told = struct.pack(">h", code) + f.string("wrong password" if code else None)
            return f.reply(ident, told + struct.pack(">i", len(token)) + token)
        self._clock_ms += 1000  # no cached answer is young enough
        verdict = self._admin.on_request(
            BenchRequest(api, body=body), peer_of(self.user), self._clock_ms
        )
        assert isinstance(verdict, Respond)
        return f.reply(ident, verdict.body, tagged=api.response_header_version > 0)

    def _handshake(self, body: bytes) -> bytes:
        self._mechanism = body[2:].decode()
        code = 0 if self._mechanism in self._mechanisms else _UNSUPPORTED
        names = b"".join(map(f.string, self._mechanisms))
        return struct.pack(">hi", code, len(self._mechanisms)) + names

    def _authenticate(self, token: bytes) -> tuple[int, bytes]:
        if self._mechanism == "PLAIN":
            _, user, password = token.decode().split("\0")
            self.user = user if self._users.get(user) == password else ""
            return (0 if self.user else _FAILED), b""
        said = token.decode()
        if said.startswith("n,,"):
            self._scram_bare = said.removeprefix("n,,")
            nonce = self._scram_bare.partition(",r=")[2] + SERVER_NONCE
            self._scram_first = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
            return 0, self._scram_first.encode()
        return self._judge_proof(said)

    def _judge_proof(self, final: str) -> tuple[int, bytes]:
        """RFC 5802, section 3, from the server's side."""
        kind = self._mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        escaped = self._scram_bare.removeprefix("n=").partition(",r=")[0]
        name = escaped.replace("=2C", ",").replace("=3D", "=")
        without_proof, _, proof = final.partition(",p=")
        password = self._users.get(name, "").encode()
        salted = hashlib.pbkdf2_hmac(kind, password, SALT, ITERATIONS)
        said = f"{self._scram_bare},{self._scram_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", kind)
        signature = hmac.digest(hashlib.new(kind, client_key).digest(), said, kind)
        meant = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if name not in self._users or base64.b64decode(proof) != meant:
            return _FAILED, b""
        self.user = name
        server_key = hmac.digest(salted, b"Server Key", kind)
        return 0, b"v=" + base64.b64encode(hmac.digest(server_key, said, kind))
