"""T8: a user name that is believed too early, or from a broker that lies.

A name is set only after the broker's own success, and only where Kafka's success would set it. The table has
exchanges in which a broker accepts what Kafka never would. `tests/integration/test_sasl.py` has the same exchanges
before a real broker, which is asked for its own view of the principal.
"""

import pytest

from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import (
    ALICE,
    ANONYMOUS,
    BY_PLAIN,
    BY_SCRAM,
    NAMED,
    SCRAM,
    UNKNOWN,
    Steps,
    play,
    say,
    shake,
    speaker,
    wire_with,
)
from tests.support.messages.sasl import PROOF, SERVER_FINAL, SERVER_FIRST, plain, scram_first

DELEGATED = ",tokenauth=true"
BEARER = b"n,,\x01auth=Bearer x\x01\x01"


def scram(first: bytes, *answers: bytes, error: int = 0) -> Steps:
    """A handshake, this first token, and proofs; the broker's answers in order."""
    tokens = [first, PROOF, PROOF]
    return [shake(SCRAM), *(say(t, a, error) for t, a in zip(tokens, answers, strict=False))]


TRUE: dict[str, tuple[Steps, tuple[str, str]]] = {
    "PLAIN": ([*BY_PLAIN], NAMED),
    "PLAIN, the same authzid": ([shake("PLAIN"), say(plain("alice", "x", "alice"))], NAMED),
    "PLAIN, a NUL too many": ([shake("PLAIN"), say(ALICE + b"\0bob")], NAMED),  # older brokers
    "SCRAM": ([*BY_SCRAM], NAMED),
    "SCRAM by token": (
        scram(scram_first("alice", extensions=DELEGATED), SERVER_FIRST, SERVER_FINAL),
        UNKNOWN,
    ),
    "OAUTHBEARER": ([shake("OAUTHBEARER"), say(BEARER)], UNKNOWN),
    "GSSAPI": ([shake("GSSAPI"), say(b"\x60ticket", b"challenge")], UNKNOWN),
}
LIES: dict[str, tuple[Steps, tuple[str, str]]] = {
    "no after all": ([shake("PLAIN"), say(ALICE, error=58), say(ALICE)], ANONYMOUS),
    "the handshake was refused": ([shake("PLAIN", 33), say(ALICE)], ANONYMOUS),
    "there was no handshake": ([say(ALICE)], ANONYMOUS),
    "a second token of PLAIN": ([*BY_PLAIN, say(plain("bob", "x"))], NAMED),
    "another authzid": ([shake("PLAIN"), say(plain("alice", "x", "bob"))], UNKNOWN),
    "no NUL": ([shake("PLAIN"), say(b"alice")], UNKNOWN),
    "a name that is not UTF-8": ([shake("PLAIN"), say(b"\0al\xffice\0x")], UNKNOWN),
    "a name without end": ([shake("PLAIN"), say(plain("a" * 5000, "x"))], UNKNOWN),
    "plain is not PLAIN": ([shake("plain"), say(ALICE)], UNKNOWN),
    "a challenge only": (scram(scram_first("alice"), SERVER_FIRST), ANONYMOUS),
    "nothing at all": (scram(scram_first("alice"), b"", b""), ANONYMOUS),
    "signed too early": (scram(scram_first("alice"), SERVER_FINAL), ANONYMOUS),
    "signed too late": (scram(scram_first("alice"), SERVER_FIRST, b"", SERVER_FINAL), ANONYMOUS),
    "signed after a refusal": (
        [*scram(scram_first("alice"), SERVER_FIRST, error=58), say(PROOF, SERVER_FINAL)],
        ANONYMOUS,
    ),
    "an error for a signature": (
        scram(scram_first("alice"), SERVER_FIRST, b"e=other-error"),
        ANONYMOUS,
    ),
    "a handshake in between": (
        [*scram(scram_first("alice"), SERVER_FIRST), shake(SCRAM), say(PROOF, b"v=x")],
        ANONYMOUS,
    ),
    "an escape that is none": (scram(scram_first("al=ice"), SERVER_FIRST, SERVER_FINAL), UNKNOWN),
    "SCRAM for another authzid": (
        scram(scram_first("alice", authzid="bob"), SERVER_FIRST, SERVER_FINAL),
        UNKNOWN,
    ),
    "a user as token": (
        scram(scram_first("alice", extensions=",x=y" + DELEGATED), SERVER_FIRST, SERVER_FINAL),
        UNKNOWN,
    ),
    "a complaint": ([shake("OAUTHBEARER"), say(BEARER, b'{"status":"invalid"}')], ANONYMOUS),
    "a complaint taken back": (
        [shake("OAUTHBEARER"), say(BEARER, b'{"status":"invalid"}'), say(b"\x01")],
        ANONYMOUS,
    ),
    "PLAIN in GSSAPI": ([shake("GSSAPI"), say(ALICE)], UNKNOWN),
    "again, refused": ([*BY_PLAIN, shake("PLAIN"), say(plain("bob", "x"), error=58)], NAMED),
    "again, not wanted": ([*BY_PLAIN, shake("PLAIN", 34), say(plain("bob", "x"))], NAMED),
    "again, half of it": ([*BY_PLAIN, shake(SCRAM), say(scram_first("bob"), b"r=")], NAMED),
}


@pytest.mark.parametrize("case", TRUE | LIES)
def test_a_user_is_set_only_where_the_broker_would_set_it(case: str) -> None:
    """The bytes pass all the same, and no request before the end of the exchange has a user."""
    steps, expected = (TRUE | LIES)[case]
    recorder = Recorder()
    wire = play(wire_with(recorder), *steps)
    assert not wire.session.ended
    assert wire.to_client == b"".join(reply for _, reply in steps)
    assert speaker(wire, recorder) == expected
    assert {peer.user for peer in recorder.peers} <= {"ANONYMOUS", expected[0]}
