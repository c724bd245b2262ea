"""T9: a re-authentication on a live connection (KIP-368) that changes the user or the mechanism.

The old user stays until the broker's success. Kafka allows no other user and no other mechanism; a broker that does is
not followed: the session ends with the reason `principal_changed`, so no request counts for another user.
"""

import pytest

from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import (
    ALICE,
    BY_PLAIN,
    BY_SCRAM,
    Steps,
    play,
    say,
    shake,
    speaker,
    wire_with,
)
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.processes.measured import tell


def alice_again() -> tuple[Wire, Recorder]:
    """Return a session that alice has authenticated by PLAIN, with one request of hers."""
    recorder = Recorder()
    wire = play(wire_with(recorder), *BY_PLAIN)
    assert speaker(wire, recorder) == ("alice", "sasl")
    return wire, recorder


def users(recorder: Recorder) -> set[str]:
    """Return the users that requests were judged under."""
    return {peer.user for peer in recorder.peers}


@pytest.mark.parametrize("password", ["alice-secret", "a-new-secret"])
def test_the_same_user_may_authenticate_again(password: str) -> None:
    """Requests before, between and after are alice's, and the connection stays."""
    wire, recorder = alice_again()
    play(wire, shake("PLAIN"), say(plain("alice", password)))
    assert speaker(wire, recorder) == ("alice", "sasl")
    assert users(recorder) == {"ANONYMOUS", "alice"}
    assert not wire.session.ended


@pytest.mark.parametrize(
    "steps", [[shake("PLAIN"), say(plain("bob", "x"), error=58)], [shake("PLAIN", 34)]]
)
def test_a_failed_attempt_leaves_the_user(steps: Steps) -> None:
    """Until the broker closes the connection, requests are those of the old user."""
    wire, recorder = alice_again()
    play(wire, *steps)
    assert speaker(wire, recorder) == ("alice", "sasl")
    assert "bob" not in users(recorder)


def test_requests_in_mid_pipeline_stay_with_their_user() -> None:
    """Three requests, a second exchange and three requests in one read are all alice's."""
    wire, recorder = alice_again()
    before = len(recorder.peers)
    second = sasl.handshake(14, "PLAIN") + sasl.authenticate(15, ALICE)
    wire.client(b"".join(f.heartbeat(n) for n in (11, 12, 13)) + second + f.heartbeat(16))
    wire.broker(b"".join(f.heartbeat_reply(n) for n in (11, 12, 13)) + sasl.handshake_reply(14))
    wire.broker(sasl.authenticate_reply(15))
    wire.settle()
    wire.client(f.heartbeat(17) + f.heartbeat(18))
    assert [peer.user for peer in recorder.peers[before:]] == ["alice"] * 8
    assert not wire.session.ended


BAD = {
    "another user": ([shake("PLAIN"), say(plain("bob", "x"))], "'alice' re-authenticated as 'bob'"),
    "another mechanism": (
        [*BY_SCRAM],
        "'alice' re-authenticated by 'SCRAM-SHA-256', before by 'PLAIN'",
    ),
    "an unknown mechanism": (
        [shake("GSSAPI"), say(b"")],
        "'alice' re-authenticated by 'GSSAPI', before by 'PLAIN'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broker_that_lets_the_principal_change_ends_the_session(case: str) -> None:
    """Its success does not reach the client, nothing more reaches the broker, and the detail says why."""
    steps, said = BAD[case]
    recorder = Recorder()
    wire = play(wire_with(recorder), *BY_PLAIN)
    before = wire.to_client
    play(wire, *steps[:-1])
    request, lie = steps[-1]
    wire.client(request).broker(lie)
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (CloseReason.PRINCIPAL_CHANGED, said)
    assert wire.to_client == before + b"".join(reply for _, reply in steps[:-1])
    assert users(recorder) <= {"ANONYMOUS", "alice"}
    assert wire.held_bytes == 0
    assert wire.watcher.internal == []
    tell("T9", f"{case}: the connection was closed, and no request counted for another user")
