"""A session whose client authenticates to Sluice, and the bytes of an authentication that succeeds."""

import struct

from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.shell.sasl_service import OFFERED, password_of, sasl_server
from wire.sasl import authenticate_body, handshake_body

ALICE = plain("alice", password_of("alice"))
SHAKEN = f.reply(1, handshake_body(0, OFFERED))
ACCEPTED = f.reply(2, authenticate_body(1))
VERSIONS = f.request(f.API_VERSIONS, 0, 7)
VERSIONS_REPLY = f.reply(7, struct.pack(">hi", 0, 0))
"""Of a broker that has no API at all."""
OUR_VERSIONS = f.reply(7, struct.pack(">hi6h", 0, 2, 17, 1, 1, 36, 0, 2))
"""The same for the client: SASL is Sluice's own."""
LIFETIME_MS = 60_000


class Gated:
    """One session with a gate, its policy, and the service that verifies passwords."""

    def __init__(self, max_reauth_ms: int = 0, max_waiting: int = 8) -> None:
        self.recorder = Recorder()
        self.engine: Engine = make_engine([self.recorder])
        server, self.checker = sasl_server(max_reauth_ms, max_waiting=max_waiting)
        self.engine.authenticate_clients(server)
        self.wire = Wire(self.engine)

    def verify(self) -> Wire:
        """Let the thread verify the passwords that wait."""
        self.checker.run_all()
        self.wire.give_turns()
        return self.wire

    def sign_in(self, token: bytes = ALICE) -> Wire:
        """Authenticate by PLAIN."""
        self.wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, token))
        return self.verify()

    def speaker(self) -> tuple[str, str]:
        """Return user and source of a request that is sent now; it must reach the broker."""
        self.wire.client(f.heartbeat(9)).broker(f.heartbeat_reply(9))
        assert self.wire.to_broker.endswith(f.heartbeat(9))
        peer = self.recorder.peers[-1]
        return peer.user, peer.principal_source

    @property
    def reason(self) -> CloseReason | None:
        """Return why the session ends."""
        return self.wire.session.reason
