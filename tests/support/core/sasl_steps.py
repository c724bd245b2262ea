"""SASL exchanges through a session, as steps: a request and the broker's reply to it."""

from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import PROOF, SERVER_FINAL, SERVER_FIRST, plain, scram_first

ALICE = plain("alice", "alice-secret")
ANONYMOUS, NAMED, UNKNOWN = ("ANONYMOUS", "none"), ("alice", "sasl"), ("UNKNOWN", "unknown")
SCRAM = "SCRAM-SHA-256"

Steps = list[tuple[bytes, bytes]]


def wire_with(recorder: Recorder, **options: object) -> Wire:
    return Wire(make_engine([recorder], **options))


def shake(mechanism: str, error: int = 0) -> tuple[bytes, bytes]:
    """Return a handshake and the broker's reply."""
    return sasl.handshake(1, mechanism), sasl.handshake_reply(1, error)


def say(token: bytes, answer: bytes = b"", error: int = 0) -> tuple[bytes, bytes]:
    """Return a token and the broker's reply."""
    return sasl.authenticate(2, token), sasl.authenticate_reply(2, answer, error)


def play(wire: Wire, *steps: tuple[bytes, bytes], chunk: int = 1 << 16) -> Wire:
    """Send each request, then its reply, and return the session; both must pass unchanged."""
    for request, reply in steps:
        wire.client(request, chunk).broker(reply, chunk)
    return wire


def speaker(wire: Wire, recorder: Recorder) -> tuple[str, str]:
    """Return the user and principal source of an ordinary request that is sent now."""
    wire.client(f.heartbeat(9)).broker(f.heartbeat_reply(9))
    return recorder.peers[-1].user, recorder.peers[-1].principal_source


BY_PLAIN = (shake("PLAIN"), say(ALICE))
BY_SCRAM = (shake(SCRAM), say(scram_first("alice"), SERVER_FIRST), say(PROOF, SERVER_FINAL))
