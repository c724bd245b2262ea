"""How the name of a client was proved: `Peer.proof` says it wherever a name comes from."""

from __future__ import annotations

import pytest

from tests.support.core.gated import Gated
from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import BY_PLAIN, BY_SCRAM, Steps, play, say, shake, wire_with
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.messages.sasl import bearer, unsigned_token


@pytest.mark.parametrize(
    ("steps", "user", "proof"),
    [
        ((), "ANONYMOUS", ""),
        (BY_PLAIN, "alice", "sasl:PLAIN"),
        (BY_SCRAM, "alice", "sasl:SCRAM-SHA-256"),
        ((shake("OAUTHBEARER"), say(bearer(unsigned_token("alice", 60)))), "alice", "claim"),
        ((shake("OAUTHBEARER"), say(bearer("opaque"))), "UNKNOWN", ""),
        ((shake("GSSAPI"), say(b"ticket")), "UNKNOWN", ""),
    ],
)
def test_a_login_at_the_broker_has_the_proof_of_its_mechanism(
    steps: Steps, user: str, proof: str
) -> None:
    """A token that the broker accepted was only read here: a claim. A client without a name has no proof."""
    recorder = Recorder()
    wire = play(wire_with(recorder, oauthbearer_claim="sub"), *steps)
    wire.client(f.heartbeat(9)).broker(f.heartbeat_reply(9))
    assert (recorder.peers[-1].user, recorder.peers[-1].proof) == (user, proof)


def test_a_fixed_name_stays_a_setting_when_a_login_has_no_name() -> None:
    """The login proves nobody: neither another name nor this one."""
    wire = play(wire_with(Recorder(), fixed_user="app"), shake("GSSAPI"), say(b"ticket"))
    assert (wire.session.peer.user, wire.session.peer.proof) == ("app", "config")


def test_a_certificate_and_a_fixed_name_have_their_proofs_from_the_start() -> None:
    """A certificate says more than the settings."""
    engine = make_engine(fixed_user="app")
    assert engine.connect("10.0.0.9", 1, None).peer.proof == "config"
    assert engine.connect("10.0.0.9", 1, None, "CN=shop").peer.proof == "tls"
    assert make_engine().connect("10.0.0.9", 1, None).peer.proof == ""


def test_a_login_at_sluice_has_its_mechanism_as_proof_and_keeps_it_with_a_new_client_id() -> None:
    """Later requests with a client id do not lose what was proved."""
    gated = Gated()
    gated.sign_in()
    gated.wire.client(f.heartbeat(9))
    peer = gated.wire.session.peer
    assert (peer.user, peer.proof, peer.client_id) == ("alice", "sasl:PLAIN", "tests")
    gated.wire.session.on_client_id("renamed")
    assert (gated.wire.session.peer.client_id, gated.wire.session.peer.proof) == (
        "renamed",
        "sasl:PLAIN",
    )
