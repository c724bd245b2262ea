"""Who the client is: nobody before the broker's own yes, and nobody else afterwards."""

from __future__ import annotations

from struct import pack

import pytest

from proxy.core.errors import CloseReason, PrincipalChangedError
from proxy.core.session.identity import MAX_NAME_CHARS, UNKNOWN, Identity, Principal
from tests.support import frames as f
from tests.support import sasl
from tests.support.sasl import FAILED, ILLEGAL_STATE, PROOF, SERVER_FINAL, SERVER_FIRST, UNSUPPORTED
from tests.support.sasl import scram_first as scram
from wire.errors import WireError

ALICE = Principal("alice", "sasl")
NOBODY_KNOWN = Principal(UNKNOWN, "unknown")


def plain(user: str, password: str = "secret", authzid: str = "") -> bytes:  # noqa: S107 - nobody's
    return sasl.plain(user, password, authzid)


def shake(identity: Identity, mechanism: str, error: int = 0) -> Identity:
    identity.on_handshake(mechanism)
    identity.on_handshake_reply(error)
    return identity


def say(identity: Identity, token: bytes, answer: bytes = b"", error: int = 0) -> Principal | None:
    identity.on_token(token)
    return identity.on_token_reply(error, answer)


def by_plain(user: str = "alice") -> Identity:
    identity = shake(Identity(), "PLAIN")
    say(identity, plain(user))
    return identity


def by_scram(identity: Identity, first: bytes) -> Principal | None:
    assert say(identity, first, SERVER_FIRST) is None
    return say(identity, PROOF, SERVER_FINAL)


def test_nobody_has_spoken() -> None:
    """Before a word is said there is no principal, and nothing is under way."""
    identity = Identity()
    assert identity.principal is None
    assert not identity.authenticating


# --- PLAIN ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("authzid", ["", "alice"])
def test_plain_is_complete_with_the_first_yes(authzid: str) -> None:
    """The authcid is the user; the authzid may be empty or the same."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice", authzid=authzid))
    assert identity.principal is None
    assert identity.authenticating
    assert identity.on_token_reply(0, b"") == ALICE
    assert identity.principal == ALICE
    assert not identity.authenticating


@pytest.mark.parametrize("error", [FAILED, ILLEGAL_STATE, -1])
def test_a_no_sets_nobody(error: int) -> None:
    """And it ends the exchange: what a liar says afterwards counts for nothing."""
    identity = shake(Identity(), "PLAIN")
    assert say(identity, plain("alice"), error=error) is None
    assert say(identity, plain("alice")) is None
    assert identity.principal is None
    assert not identity.authenticating


def test_nobody_acts_for_somebody_else() -> None:
    """Kafka refuses another authzid; a broker that does not may mean either of the two."""
    assert say(shake(Identity(), "PLAIN"), plain("alice", authzid="bob")) == NOBODY_KNOWN
    assert by_scram(shake(Identity(), "SCRAM-SHA-256"), scram("alice", "bob")) == NOBODY_KNOWN


def test_a_name_that_cannot_be_read_is_unknown() -> None:
    """The broker agreed: to whom, only the broker knows. So it is not ANONYMOUS either."""
    for token in (b"", b"alice", b"\0alice", b"\0\xff\0secret", plain("a" * 2000)):
        assert say(shake(Identity(), "PLAIN"), token) == NOBODY_KNOWN


def test_only_the_first_token_of_plain_names_the_user() -> None:
    """A second token has no meaning; its yes cannot make the client somebody else."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice"))
    identity.on_token(plain("bob"))
    assert identity.on_token_reply(0, b"") == ALICE
    assert identity.on_token_reply(0, b"") is None
    assert identity.principal == ALICE


# --- SCRAM ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_is_complete_with_the_servers_signature(mechanism: str) -> None:
    """Not with the challenge, though that is a yes too."""
    identity = shake(Identity(), mechanism)
    assert say(identity, scram("alice"), SERVER_FIRST) is None
    assert identity.principal is None
    assert identity.authenticating
    assert say(identity, PROOF, SERVER_FINAL) == ALICE
    assert not identity.authenticating


def test_scram_names_are_unescaped() -> None:
    """`=2C` is a comma and `=3D` an equals sign; any other escape makes the name unreadable."""
    identity = shake(Identity(), "SCRAM-SHA-512")
    assert by_scram(identity, scram("a=2Cb=3D")) == Principal("a,b=", "sasl")
    assert by_scram(shake(Identity(), "SCRAM-SHA-512"), scram("a=2cb")) == NOBODY_KNOWN


@pytest.mark.parametrize(
    "answers",
    [
        [SERVER_FINAL],
        [b"", b""],
        [SERVER_FIRST, SERVER_FIRST],
        [SERVER_FIRST, b"e=invalid-proof"],
        [SERVER_FIRST, b"", SERVER_FINAL],
    ],
)
def test_scram_out_of_turn_is_never_complete(answers: list[bytes]) -> None:
    """A broker that says yes without a signature, or signs too early or too late, is no broker."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    for token, answer in zip([scram("alice"), PROOF, PROOF], answers, strict=False):
        assert say(identity, token, answer) is None
    assert identity.principal is None


def test_a_wrong_proof_sets_nobody() -> None:
    """The broker's no comes with the second answer."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    say(identity, scram("alice"), SERVER_FIRST)
    assert say(identity, PROOF, error=FAILED) is None
    assert identity.principal is None


def test_a_delegation_tokens_owner_is_unknown() -> None:
    """What stands for the name is the token's id, which must not be taken for a user."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    assert by_scram(identity, scram("alice", extensions=",tokenauth=true")) == NOBODY_KNOWN


# --- other mechanisms ----------------------------------------------------------------------------


def test_oauthbearer_complains_with_a_yes() -> None:
    """An error 0 that brings something is a failure; the client acknowledges it and is refused."""
    identity = shake(Identity(), "OAUTHBEARER")
    assert say(identity, b"n,,\x01auth=Bearer x\x01\x01", b'{"status":"invalid_token"}') is None
    assert say(identity, b"\x01", b"") is None  # a liar; Kafka says no here
    assert identity.principal is None


def test_oauthbearer_is_unknown_when_complete() -> None:
    """Complete with an empty yes; whose token it was is for the broker to know."""
    identity = shake(Identity(), "OAUTHBEARER")
    assert say(identity, b"n,,\x01auth=Bearer x\x01\x01", b"") == NOBODY_KNOWN


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM", "plain", "", "x" * 32767])
def test_any_other_mechanism_is_unknown_from_the_first_yes(mechanism: str) -> None:
    """Names are compared as they are: `plain` is not PLAIN."""
    identity = shake(Identity(), mechanism)
    assert identity.principal is None
    assert say(identity, plain("alice"), b"challenge") == NOBODY_KNOWN
    assert say(identity, plain("alice"), b"") is None
    assert identity.principal == NOBODY_KNOWN


# --- handshakes ----------------------------------------------------------------------------------


def test_a_refused_handshake_is_followed_by_nothing() -> None:
    """Error 33: the broker closes; error 34: it goes on as before. Either way no yes can follow."""
    for error in (UNSUPPORTED, ILLEGAL_STATE):
        identity = shake(Identity(), "PLAIN", error)
        assert not identity.authenticating
        assert say(identity, plain("alice")) is None
        assert identity.principal is None


def test_a_token_without_a_handshake_is_nobodys() -> None:
    """No mechanism was agreed on, so nothing can be complete."""
    assert say(Identity(), plain("alice")) is None


def test_a_reply_that_nobody_waits_for_changes_nothing() -> None:
    """The queue of exchanges rules it out; here it would do no harm."""
    identity = Identity()
    identity.on_handshake_reply(0)
    assert identity.on_token_reply(0, SERVER_FINAL) is None
    assert identity.principal is None


def test_pipelined_exchanges_are_told_apart() -> None:
    """All requests before any reply: each answer belongs to the oldest that has none."""
    identity = Identity()
    identity.on_handshake("GSSAPI")
    identity.on_handshake("PLAIN")
    identity.on_token(plain("alice"))
    identity.on_handshake("PLAIN")
    identity.on_token(plain("bob"))
    identity.on_handshake_reply(UNSUPPORTED)
    assert identity.authenticating
    identity.on_handshake_reply(0)
    assert identity.on_token_reply(0, b"") == ALICE
    identity.on_handshake_reply(ILLEGAL_STATE)
    assert identity.on_token_reply(ILLEGAL_STATE, b"") is None
    assert identity.principal == ALICE
    assert not identity.authenticating


def test_a_new_handshake_begins_anew() -> None:
    """The tokens of the exchange before it count for nothing in the next."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    assert say(identity, scram("bob"), SERVER_FIRST) is None
    shake(identity, "SCRAM-SHA-256")
    assert say(identity, PROOF, SERVER_FINAL) is None
    assert identity.principal is None


# --- re-authentication (KIP-368) -----------------------------------------------------------------


def test_re_authentication_of_the_same_user_changes_nothing() -> None:
    """The old principal holds all the while."""
    identity = by_plain()
    shake(identity, "PLAIN")
    assert identity.authenticating
    identity.on_token(plain("alice", "new secret"))
    assert identity.principal == ALICE
    assert identity.on_token_reply(0, b"") == ALICE
    assert not identity.authenticating


def test_a_failing_re_authentication_leaves_the_old_principal() -> None:
    """Until the broker has closed, what is still in flight is the old user's."""
    for error in (FAILED, ILLEGAL_STATE):
        identity = shake(by_plain(), "PLAIN")
        assert say(identity, plain("bob"), error=error) is None
        assert identity.principal == ALICE
        assert not identity.authenticating


def test_a_handshake_refused_in_mid_stream_leaves_the_old_principal() -> None:
    """Re-authentication is off, or comes too early (within a second): the connection goes on."""
    identity = shake(by_plain(), "SCRAM-SHA-256", ILLEGAL_STATE)
    assert not identity.authenticating
    assert say(identity, scram("bob"), error=ILLEGAL_STATE) is None
    assert identity.principal == ALICE


def test_re_authentication_as_another_user_ends_the_session() -> None:
    """Kafka would have refused; whoever agrees to it is not asked what it means."""
    identity = shake(by_plain(), "PLAIN")
    with pytest.raises(PrincipalChangedError, match="'alice' re-authenticated as 'bob'") as raised:
        say(identity, plain("bob"))
    assert raised.value.reason is CloseReason.PRINCIPAL_CHANGED
    assert identity.principal == ALICE


def test_re_authentication_by_another_mechanism_ends_the_session() -> None:
    """Be it by the same user: Kafka's broker refuses that as well."""
    identity = shake(by_plain(), "SCRAM-SHA-256")
    with pytest.raises(PrincipalChangedError, match="by 'SCRAM-SHA-256', before by 'PLAIN'"):
        by_scram(identity, scram("alice"))
    assert identity.principal == ALICE
    with pytest.raises(PrincipalChangedError):
        say(shake(by_plain(), "AWS_MSK_IAM"), b"")


def test_between_a_name_and_unknown_nothing_is_compared() -> None:
    """By a delegation token, then by password or the other way: the broker knows the owner. Who came first stays."""
    by_token = scram("id", extensions=",tokenauth=true")
    for first, second in ((scram("alice"), by_token), (by_token, scram("alice"))):
        identity = shake(Identity(), "SCRAM-SHA-256")
        before = by_scram(identity, first)
        assert by_scram(shake(identity, "SCRAM-SHA-256"), second) is before is identity.principal


def test_long_or_strange_names_are_cut_and_escaped_in_the_reason() -> None:
    """It is written to a log."""
    identity = shake(by_plain("\x1b[2J"), "PLAIN")
    with pytest.raises(PrincipalChangedError) as raised:
        say(identity, plain("\x1b" * MAX_NAME_CHARS))
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 1100


# --- by bodies -----------------------------------------------------------------------------------


def token_body(version: int, token: bytes) -> bytes:
    return sasl.authenticate(1, token, version)[19 + (version >= 2) :]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_bodies_are_heard(version: int) -> None:
    """A whole SCRAM exchange as it lies on the wire, in every version of SaslAuthenticate."""
    identity = Identity()
    identity.heard_request(f.SASL_HANDSHAKE, 1, f.string("SCRAM-SHA-256"))
    assert identity.heard_reply(f.SASL_HANDSHAKE, 1, pack(">hi", 0, 0)) is None
    identity.heard_request(f.SASL_AUTHENTICATE, version, token_body(version, scram("alice")))
    challenge = sasl.authenticate_body(SERVER_FIRST, 0, version)
    assert identity.heard_reply(f.SASL_AUTHENTICATE, version, challenge) is None
    identity.heard_request(f.SASL_AUTHENTICATE, version, token_body(version, PROOF))
    final = sasl.authenticate_body(SERVER_FINAL, 0, version)
    assert identity.heard_reply(f.SASL_AUTHENTICATE, version, final) == ALICE


def test_other_apis_are_not_heard() -> None:
    """Whatever else passes between a token and its answer has no say."""
    identity = shake(Identity(), "PLAIN")
    identity.heard_request(f.SASL_AUTHENTICATE, 1, token_body(1, plain("alice")))
    identity.heard_request(f.HEARTBEAT, 0, token_body(1, plain("bob")))
    assert identity.heard_reply(f.HEARTBEAT, 0, sasl.authenticate_body()) is None
    assert identity.heard_reply(f.SASL_AUTHENTICATE, 1, sasl.authenticate_body()) == ALICE


def test_a_malformed_request_passes_and_names_nobody() -> None:
    """The broker will refuse it. If it does not, nobody can tell whom it took it for."""
    identity = Identity()
    identity.heard_request(f.SASL_HANDSHAKE, 1, b"\x00\x09PLAIN")
    identity.heard_reply(f.SASL_HANDSHAKE, 1, b"\x00\x00")
    identity.heard_request(f.SASL_AUTHENTICATE, 1, b"\x00\x00\x00\xff" + plain("alice"))
    assert identity.heard_reply(f.SASL_AUTHENTICATE, 1, sasl.authenticate_body()) == NOBODY_KNOWN


def test_a_malformed_reply_is_the_brokers_fault() -> None:
    """Nobody is set by it."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice"))
    with pytest.raises(WireError):
        identity.heard_reply(f.SASL_AUTHENTICATE, 1, b"\x00\x00")
    assert identity.principal is None
