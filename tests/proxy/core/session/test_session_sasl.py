"""SASL through a session: its bytes are unchanged, and policies see the right user of each request.

`tests/threats` has the lying brokers: test_t08_principal.py, test_t09_reauthentication.py.
"""

import pytest

from policies.api import FORWARD, Reject, Respond
from proxy.core.errors import CloseReason
from proxy.core.memory.unauthenticated import MAX_BYTES
from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import (
    ALICE,
    ANONYMOUS,
    BY_PLAIN,
    BY_SCRAM,
    NAMED,
    Steps,
    play,
    say,
    shake,
    speaker,
    wire_with,
)
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl


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
    wire.proceed()
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


@pytest.mark.parametrize(
    ("mechanism", "largest_bytes"),
    [
        ("PLAIN", 16 << 10),
        ("SCRAM-SHA-512", 16 << 10),
        ("OAUTHBEARER", 128 << 10),
        ("GSSAPI", 128 << 10),
        ("OF-A-STRANGER", 512 << 10),
        ("", 16 << 10),
    ],
)
def test_a_token_has_the_limit_of_its_mechanism(mechanism: str, largest_bytes: int) -> None:
    """At most Kafka's sasl.server.max.receive.size, 512 KiB; judged by the size that the frame announces."""
    steps = [shake(mechanism)] if mechanism else []
    fits = play(Wire(), *steps)
    assert not fits.client(sasl.authenticate(2, bytes(largest_bytes - 4))).session.ended
    over = play(Wire(), *steps)
    over.client(sasl.authenticate(2, bytes(largest_bytes - 3))[:30])
    assert over.session.ended
    assert over.session.reason is CloseReason.CLIENT_PROTOCOL
    assert over.session.shared.unauthenticated.used_bytes == 0


def test_a_client_whose_login_is_slow_gives_way_to_others() -> None:
    """The sum of tokens that are not whole is bounded; one that logs in at once stays, and so do those that have."""
    engine = make_engine()
    known = play(Wire(engine=engine), *BY_PLAIN)
    known.client(sasl.handshake(9, "PLAIN"))
    known.broker(sasl.handshake_reply(9))
    known.client(sasl.authenticate(10, bytes(16_000))[:-1])
    slow = []
    for _ in range(60):
        wire = play(Wire(engine=engine), shake("GSSAPI"))
        slow.append(wire.client(sasl.authenticate(2, bytes(100_000))[:-1]))
        engine.advance(engine.now_ms + 10)
        assert engine.unauthenticated.used_bytes <= MAX_BYTES
    honest = play(Wire(engine=engine), shake("OAUTHBEARER"))
    honest.client(sasl.authenticate(2, bytes(120_000))[:-1])
    assert not honest.session.ended
    assert not known.session.ended
    gone = [wire for wire in slow if wire.session.ended]
    assert gone == slow[: len(gone)]
    assert 15 < len(gone) < 30
    assert {wire.session.reason for wire in gone} == {CloseReason.AUTHENTICATION_OVERLOADED}
    for wire in (honest, known, *slow):
        wire.session.release(engine.now_ms)
    assert engine.unauthenticated.used_bytes == engine.request_pool.used_bytes == 0


@pytest.mark.parametrize("size", [1, 700, 9000])
def test_a_client_that_gives_way_with_its_first_head_leaves_no_byte_counted(size: int) -> None:
    """It has reserved no memory yet; it is forgotten as others are."""
    engine = make_engine()
    engine.unauthenticated.max_bytes = 8000
    wire = Wire(engine=engine)
    asked = f.request(f.API_VERSIONS, 3, 1, b"\0\x04lib\x041.0\0", client_id="x" * 30_000)
    wire.client(asked[:9000], size)
    assert wire.session.reason is CloseReason.AUTHENTICATION_OVERLOADED
    wire.settle()
    wire.session.release(engine.now_ms)
    assert len(engine.unauthenticated) == engine.unauthenticated.used_bytes == 0


def test_a_token_in_any_pieces_is_counted_until_it_is_whole() -> None:
    """No byte stays counted, and it does not matter where a read ends."""
    token = sasl.authenticate(2, bytes(3000))
    for size in (1, 7, 1000, 3000):
        wire = play(Wire(), shake("GSSAPI"))
        engine = wire.session.shared
        for at in range(0, len(token) - 1, size):
            wire.client(token[at : min(at + size, len(token) - 1)])
        assert engine.request_pool.used_bytes >= len(token) - 1 - len(sasl.authenticate(2, b""))
        wire.client(token[-1:])
        assert wire.to_broker.endswith(token)
        assert engine.unauthenticated.used_bytes == engine.request_pool.used_bytes == 0


@pytest.mark.parametrize(
    "reply", [sasl.authenticate_reply(3), f.reply(2, b"\0\0")], ids=["another id", "malformed"]
)
def test_a_wrong_success_is_the_brokers_fault_and_sets_no_user(reply: bytes) -> None:
    """One with another correlation id ends both sides before it is read."""
    wire = play(Wire(), shake("PLAIN"))
    wire.client(sasl.authenticate(2, ALICE)).broker(reply)
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
