"""The client's principal: none before the broker accepts the client, and the same one afterwards."""

from struct import pack

import pytest

from proxy.core.errors import CloseReason, PrincipalChangedError
from proxy.core.session.identity import MAX_NAME_CHARS, UNKNOWN, Identity, Principal
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import (
    FAILED,
    ILLEGAL_STATE,
    PROOF,
    SERVER_FINAL,
    SERVER_FIRST,
    UNSUPPORTED,
)
from tests.support.messages.sasl import scram_first as scram
from wire.errors import WireError

ALICE = Principal("alice", "sasl")
UNKNOWN_PRINCIPAL = Principal(UNKNOWN, "unknown")


def plain(user: str, password: str = "secret", authzid: str = "") -> bytes:  # noqa: S107 - not a real one
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


def test_a_new_identity_has_no_principal() -> None:
    """And no exchange is under way."""
    identity = Identity()
    assert identity.principal is None
    assert not identity.authenticating


# --- PLAIN ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("authzid", ["", "alice"])
def test_plain_is_complete_with_the_first_success(authzid: str) -> None:
    """The authcid is the user; the authzid may be empty or the same."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice", authzid=authzid))
    assert identity.principal is None
    assert identity.authenticating
    assert identity.on_token_reply(0, b"") == ALICE
    assert identity.principal == ALICE
    assert not identity.authenticating


@pytest.mark.parametrize("error", [FAILED, ILLEGAL_STATE, -1])
def test_a_refusal_sets_no_principal(error: int) -> None:
    """It ends the exchange: a success that a broker sends afterwards counts for nothing."""
    identity = shake(Identity(), "PLAIN")
    assert say(identity, plain("alice"), error=error) is None
    assert say(identity, plain("alice")) is None
    assert identity.principal is None
    assert not identity.authenticating


def test_another_authzid_makes_the_principal_unknown() -> None:
    """Kafka refuses it; a broker that accepts it may mean either of the two names."""
    assert say(shake(Identity(), "PLAIN"), plain("alice", authzid="bob")) == UNKNOWN_PRINCIPAL
    assert by_scram(shake(Identity(), "SCRAM-SHA-256"), scram("alice", "bob")) == UNKNOWN_PRINCIPAL


def test_a_name_that_cannot_be_read_is_unknown() -> None:
    """The broker accepted the client, and only the broker knows as which user. So it is not ANONYMOUS."""
    for token in (b"", b"alice", b"\0alice", b"\0\xff\0secret", plain("a" * 2000)):
        assert say(shake(Identity(), "PLAIN"), token) == UNKNOWN_PRINCIPAL


def test_only_the_first_token_of_plain_names_the_user() -> None:
    """A second token has no meaning; its success does not change the user."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice"))
    identity.on_token(plain("bob"))
    assert identity.on_token_reply(0, b"") == ALICE
    assert identity.on_token_reply(0, b"") is None
    assert identity.principal == ALICE


# --- SCRAM ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_is_complete_with_the_servers_signature(mechanism: str) -> None:
    """Not with the challenge, though that has error 0 too."""
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
    assert by_scram(shake(Identity(), "SCRAM-SHA-512"), scram("a=2cb")) == UNKNOWN_PRINCIPAL


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
    """A signature that is missing, too early or too late sets no principal."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    for token, answer in zip([scram("alice"), PROOF, PROOF], answers, strict=False):
        assert say(identity, token, answer) is None
    assert identity.principal is None


def test_a_wrong_proof_sets_no_principal() -> None:
    """The broker refuses with its second answer."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    say(identity, scram("alice"), SERVER_FIRST)
    assert say(identity, PROOF, error=FAILED) is None
    assert identity.principal is None


def test_a_delegation_tokens_owner_is_unknown() -> None:
    """Its first message has the token's id in place of the name; that must not be taken for a user."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    assert by_scram(identity, scram("alice", extensions=",tokenauth=true")) == UNKNOWN_PRINCIPAL


# --- other mechanisms ----------------------------------------------------------------------------


def test_oauthbearer_fails_with_error_0_and_a_body() -> None:
    """The client acknowledges the failure, and Kafka refuses it then."""
    identity = shake(Identity(), "OAUTHBEARER")
    assert say(identity, b"n,,\x01auth=Bearer x\x01\x01", b'{"status":"invalid_token"}') is None
    assert say(identity, b"\x01", b"") is None  # a liar; Kafka says no here
    assert identity.principal is None


def test_oauthbearer_is_unknown_when_complete() -> None:
    """It is complete with an empty success; only the broker knows the token's owner."""
    identity = shake(Identity(), "OAUTHBEARER")
    assert say(identity, b"n,,\x01auth=Bearer x\x01\x01", b"") == UNKNOWN_PRINCIPAL


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM", "plain", "", "x" * 32767])
def test_any_other_mechanism_is_unknown_from_the_first_success(mechanism: str) -> None:
    """Names are compared as they are: `plain` is not PLAIN."""
    identity = shake(Identity(), mechanism)
    assert identity.principal is None
    assert say(identity, plain("alice"), b"challenge") == UNKNOWN_PRINCIPAL
    assert say(identity, plain("alice"), b"") is None
    assert identity.principal == UNKNOWN_PRINCIPAL


# --- handshakes ----------------------------------------------------------------------------------


def test_no_token_counts_after_a_refused_handshake() -> None:
    """After error 33 the broker closes; after error 34 the connection stays as it was."""
    for error in (UNSUPPORTED, ILLEGAL_STATE):
        identity = shake(Identity(), "PLAIN", error)
        assert not identity.authenticating
        assert say(identity, plain("alice")) is None
        assert identity.principal is None


def test_a_token_without_a_handshake_sets_no_principal() -> None:
    """No mechanism was agreed on, so no exchange can be complete."""
    assert say(Identity(), plain("alice")) is None


def test_a_reply_without_a_request_changes_nothing() -> None:
    """The queue of exchanges rules it out; here it does no harm."""
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


def test_a_new_handshake_starts_a_new_exchange() -> None:
    """The tokens of the exchange before it do not count."""
    identity = shake(Identity(), "SCRAM-SHA-256")
    assert say(identity, scram("bob"), SERVER_FIRST) is None
    shake(identity, "SCRAM-SHA-256")
    assert say(identity, PROOF, SERVER_FINAL) is None
    assert identity.principal is None


# --- re-authentication (KIP-368) -----------------------------------------------------------------


def test_re_authentication_of_the_same_user_changes_nothing() -> None:
    """The old principal stays during the exchange and after it."""
    identity = by_plain()
    shake(identity, "PLAIN")
    assert identity.authenticating
    identity.on_token(plain("alice", "new secret"))
    assert identity.principal == ALICE
    assert identity.on_token_reply(0, b"") == ALICE
    assert not identity.authenticating


def test_a_failing_re_authentication_leaves_the_old_principal() -> None:
    """Until the broker closes, requests in flight are those of the old user."""
    for error in (FAILED, ILLEGAL_STATE):
        identity = shake(by_plain(), "PLAIN")
        assert say(identity, plain("bob"), error=error) is None
        assert identity.principal == ALICE
        assert not identity.authenticating


def test_a_handshake_refused_in_mid_stream_leaves_the_old_principal() -> None:
    """Re-authentication is off, or comes within a second: the connection stays open."""
    identity = shake(by_plain(), "SCRAM-SHA-256", ILLEGAL_STATE)
    assert not identity.authenticating
    assert say(identity, scram("bob"), error=ILLEGAL_STATE) is None
    assert identity.principal == ALICE


def test_re_authentication_as_another_user_ends_the_session() -> None:
    """Kafka refuses it; a broker that accepts it is not trusted."""
    identity = shake(by_plain(), "PLAIN")
    with pytest.raises(PrincipalChangedError, match="'alice' re-authenticated as 'bob'") as raised:
        say(identity, plain("bob"))
    assert raised.value.reason is CloseReason.PRINCIPAL_CHANGED
    assert identity.principal == ALICE


def test_re_authentication_by_another_mechanism_ends_the_session() -> None:
    """Even as the same user: Kafka refuses that as well."""
    identity = shake(by_plain(), "SCRAM-SHA-256")
    with pytest.raises(PrincipalChangedError, match="by 'SCRAM-SHA-256', before by 'PLAIN'"):
        by_scram(identity, scram("alice"))
    assert identity.principal == ALICE
    with pytest.raises(PrincipalChangedError):
        say(shake(by_plain(), "AWS_MSK_IAM"), b"")


def test_a_known_and_an_unknown_principal_are_not_compared() -> None:
    """A delegation token before or after a password: the name counts, since the broker allows no other user."""
    by_token = scram("id", extensions=",tokenauth=true")
    for first, second in ((scram("alice"), by_token), (by_token, scram("alice"))):
        identity = shake(Identity(), "SCRAM-SHA-256")
        by_scram(identity, first)
        assert by_scram(shake(identity, "SCRAM-SHA-256"), second) == ALICE == identity.principal


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
def test_the_principal_is_read_from_bodies(version: int) -> None:
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


def test_other_apis_do_not_change_the_principal() -> None:
    """Their requests and replies may pass between a token and its answer."""
    identity = shake(Identity(), "PLAIN")
    identity.heard_request(f.SASL_AUTHENTICATE, 1, token_body(1, plain("alice")))
    identity.heard_request(f.HEARTBEAT, 0, token_body(1, plain("bob")))
    assert identity.heard_reply(f.HEARTBEAT, 0, sasl.authenticate_body()) is None
    assert identity.heard_reply(f.SASL_AUTHENTICATE, 1, sasl.authenticate_body()) == ALICE


def test_a_malformed_token_makes_the_principal_unknown() -> None:
    """The broker refuses it; if it does not, only the broker knows the user."""
    identity = Identity()
    identity.heard_request(f.SASL_HANDSHAKE, 1, b"\x00\x09PLAIN")
    identity.heard_reply(f.SASL_HANDSHAKE, 1, b"\x00\x00")
    identity.heard_request(f.SASL_AUTHENTICATE, 1, b"\x00\x00\x00\xff" + plain("alice"))
    assert (
        identity.heard_reply(f.SASL_AUTHENTICATE, 1, sasl.authenticate_body()) == UNKNOWN_PRINCIPAL
    )


def test_a_malformed_reply_is_the_brokers_fault() -> None:
    """It raises WireError and sets no principal."""
    identity = shake(Identity(), "PLAIN")
    identity.on_token(plain("alice"))
    with pytest.raises(WireError):
        identity.heard_reply(f.SASL_AUTHENTICATE, 1, b"\x00\x00")
    assert identity.principal is None
