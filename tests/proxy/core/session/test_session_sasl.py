"""SASL through a session: its bytes are unchanged, and policies see the right user of each request.

Here the broker may lie: it accepts where Kafka never would. That sets no user name.
"""

from __future__ import annotations

import pytest

from policies.api import FORWARD, Reject, Respond
from proxy.core.errors import CloseReason
from tests.support import frames as f
from tests.support import sasl
from tests.support.policies import Recorder
from tests.support.sasl import PROOF, SERVER_FINAL, SERVER_FIRST, plain, scram_first
from tests.support.sessions import Wire, make_engine

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


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
@pytest.mark.parametrize("steps", [BY_PLAIN, BY_SCRAM], ids=["PLAIN", "SCRAM"])
def test_sasl_passes_unchanged_and_sets_the_user(steps: Steps, chunk: int) -> None:
    """However the stream is cut, no byte is changed, kept or added."""
    recorder = Recorder()
    wire = play(wire_with(recorder), *steps, chunk=chunk)
    assert wire.to_broker == b"".join(request for request, _ in steps)
    assert wire.to_client == b"".join(reply for _, reply in steps)
    assert wire.held_bytes == 0
    assert {(peer.user, peer.principal_source) for peer in recorder.peers} == {ANONYMOUS}
    assert speaker(wire, recorder) == NAMED


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_token_sets_the_user(version: int) -> None:
    """The flexible one too, with its tagged headers on both sides."""
    recorder = Recorder()
    wire = play(wire_with(recorder), shake("PLAIN"))
    wire.client(sasl.authenticate(2, ALICE, version))
    wire.broker(sasl.authenticate_reply(2, version=version))
    assert speaker(wire, recorder) == NAMED


def test_requests_pipelined_after_a_token_wait_for_its_answer() -> None:
    """So policies see alice as their user; the order stays."""
    recorder = Recorder()
    wire = wire_with(recorder)
    wire.client(
        sasl.handshake(1, "PLAIN") + sasl.authenticate(2, ALICE) + f.heartbeat(3) + f.heartbeat(4)
    )
    wire.broker(sasl.handshake_reply(1))
    assert [peer.user for peer in recorder.peers] == ["ANONYMOUS"] * 2
    wire.broker(sasl.authenticate_reply(2))
    wire.settle()
    if wire.session.paced:
        wire.session.resume()
        wire.client(b"", 1)
    wire.broker(f.heartbeat_reply(3) + f.heartbeat_reply(4))
    assert [peer.user for peer in recorder.peers] == ["ANONYMOUS"] * 2 + ["alice"] * 2
    assert wire.to_broker.endswith(f.heartbeat(3) + f.heartbeat(4))
    assert wire.held_bytes == 0


def test_a_fixed_user_applies_where_sasl_names_no_user() -> None:
    """A name that the broker has confirmed takes precedence over it."""
    recorder = Recorder()
    wire = play(wire_with(recorder, fixed_user="billing"), *BY_PLAIN)
    assert speaker(wire, recorder) == ("alice", "sasl")
    wire = play(wire_with(recorder, fixed_user="billing"), shake("OAUTHBEARER"), say(b"n,,x"))
    assert speaker(wire, recorder) == ("billing", "fixed")


def test_requests_are_small_until_sasl_succeeds() -> None:
    """Then they may have any size, also after a second authentication was refused in mid stream."""
    large = f.produce(6, size_bytes=70_000)
    wire = play(Wire(), *BY_PLAIN, shake("PLAIN", sasl.ILLEGAL_STATE))
    assert not wire.client(large).session.ended
    unfinished = play(Wire(), shake("PLAIN"))
    assert unfinished.client(large).session.reason is CloseReason.CLIENT_PROTOCOL


def test_a_token_has_a_limit_of_its_own() -> None:
    """Kafka's sasl.server.max.receive.size, 512 KiB, though other requests may be larger."""
    head = len(sasl.authenticate(2, b"")) - 4
    most = (512 << 10) - head
    wire = play(Wire(), shake("PLAIN"))
    assert not wire.client(sasl.authenticate(2, bytes(most))).session.ended
    over = play(Wire(), shake("PLAIN"))
    assert over.client(sasl.authenticate(2, bytes(most + 1))).session.ended
    assert over.session.reason is CloseReason.CLIENT_PROTOCOL


LIES: dict[str, tuple[Steps, tuple[str, str]]] = {
    "no after all": ([shake("PLAIN"), say(ALICE, error=58), say(ALICE)], ANONYMOUS),
    "the handshake was refused": ([shake("PLAIN", 33), say(ALICE)], ANONYMOUS),
    "there was no handshake": ([say(ALICE)], ANONYMOUS),
    "a second token of PLAIN": ([*BY_PLAIN, say(plain("bob", "x"))], NAMED),
    "another authzid": ([shake("PLAIN"), say(plain("alice", "x", "bob"))], UNKNOWN),
    "a challenge only": ([shake(SCRAM), say(scram_first("alice"), SERVER_FIRST)], ANONYMOUS),
    "nothing at all": ([shake(SCRAM), say(scram_first("alice")), say(PROOF)], ANONYMOUS),
    "signed too early": ([shake(SCRAM), say(scram_first("alice"), SERVER_FINAL)], ANONYMOUS),
    "signed too late": (
        [
            shake(SCRAM),
            *(say(scram_first("alice"), SERVER_FIRST), say(PROOF), say(PROOF, SERVER_FINAL)),
        ],
        ANONYMOUS,
    ),
    "an error for a signature": (
        [shake(SCRAM), say(scram_first("alice"), SERVER_FIRST), say(PROOF, b"e=other-error")],
        ANONYMOUS,
    ),
    "a handshake in between": (
        [shake(SCRAM), say(scram_first("alice"), SERVER_FIRST), shake(SCRAM), say(PROOF, b"v=x")],
        ANONYMOUS,
    ),
    "a user as token": (
        [
            shake(SCRAM),
            say(scram_first("alice", extensions=",tokenauth=true"), SERVER_FIRST),
            say(PROOF, SERVER_FINAL),
        ],
        UNKNOWN,
    ),
    "a complaint": ([shake("OAUTHBEARER"), say(b"n,,", b'{"status":"invalid"}')], ANONYMOUS),
    "a complaint taken back": (
        [shake("OAUTHBEARER"), say(b"n,,", b'{"status":"invalid"}'), say(b"\x01")],
        ANONYMOUS,
    ),
    "PLAIN in GSSAPI": ([shake("GSSAPI"), say(ALICE)], UNKNOWN),
    "again, refused": ([*BY_PLAIN, shake("PLAIN"), say(plain("bob", "x"), error=58)], NAMED),
    "again, not wanted": ([*BY_PLAIN, shake("PLAIN", 34), say(plain("bob", "x"))], NAMED),
    "again, half of it": ([*BY_PLAIN, shake(SCRAM), say(scram_first("bob"), b"r=")], NAMED),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_broker_sets_no_user(lie: str) -> None:
    """A user is set only where Kafka's own success would set it; the bytes pass all the same."""
    steps, expected = LIES[lie]
    recorder = Recorder()
    wire = play(wire_with(recorder), *steps)
    assert not wire.session.ended
    assert wire.to_client == b"".join(reply for _, reply in steps)
    assert speaker(wire, recorder) == expected


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((shake("PLAIN"), say(plain("bob", "x"))), "'alice' re-authenticated as 'bob'"),
        (BY_SCRAM, "'alice' re-authenticated by 'SCRAM-SHA-256', before by 'PLAIN'"),
        ((shake("GSSAPI"), say(b"")), "'alice' re-authenticated by 'GSSAPI', before by 'PLAIN'"),
    ],
    ids=["another user", "another mechanism", "an unknown mechanism"],
)
def test_a_broker_that_lets_the_principal_change_ends_the_session(steps: Steps, said: str) -> None:
    """Its success does not reach the client, nothing more reaches the broker, and the detail says why."""
    recorder = Recorder()
    wire = play(wire_with(recorder), *BY_PLAIN)
    before = wire.to_client
    play(wire, *steps[:-1])
    request, lie = steps[-1]
    wire.client(request).broker(lie)
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (CloseReason.PRINCIPAL_CHANGED, said)
    assert wire.to_client == before + b"".join(reply for _, reply in steps[:-1])
    assert {peer.user for peer in recorder.peers} <= {"ANONYMOUS", "alice"}
    assert wire.held_bytes == 0
    assert wire.watcher.internal == []


def test_a_reply_out_of_order_sets_no_user() -> None:
    """A success with another correlation id ends both sides before it is read."""
    wire = play(Wire(), shake("PLAIN"))
    wire.client(sasl.authenticate(2, ALICE)).broker(sasl.authenticate_reply(3))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.session.peer.user == "ANONYMOUS"


def test_a_malformed_success_is_the_brokers_fault() -> None:
    """Two zero bytes are no SaslAuthenticate reply."""
    wire = play(Wire(), shake("PLAIN"))
    wire.client(sasl.authenticate(2, ALICE)).broker(f.reply(2, b"\0\0"))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.session.peer.user == "ANONYMOUS"


@pytest.mark.parametrize("verdict", [Respond(sasl.authenticate_body()), Reject(58)])
def test_a_success_made_here_sets_no_user(verdict: Respond | Reject) -> None:
    """A token that a policy answers never reached the broker, so the client has not authenticated."""

    def decide(request):
        return verdict if request.api_key == f.SASL_AUTHENTICATE else FORWARD

    recorder = Recorder(decide)
    wire = play(wire_with(recorder), shake("PLAIN"))
    wire.client(sasl.authenticate(2, ALICE))
    assert speaker(wire, recorder) == ANONYMOUS
