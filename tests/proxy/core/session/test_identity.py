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
    bearer,
    plain,
    unsigned_token,
)
from tests.support.messages.sasl import scram_first as scram
from wire.errors import WireError

ALICE = Principal("alice", "sasl")
NAMELESS = Principal(UNKNOWN, "unknown")
LONGEST = 32_767

Turn = tuple[bytes, bytes, int]


def turn(token: bytes, answer: bytes = b"", error: int = 0) -> Turn:
    """Return a token of the client, and the broker's answer to it."""
    return token, answer, error


def by_plain(user: str = "alice", authzid: str = "", error: int = 0) -> Turn:
    return turn(plain(user, "secret", authzid), b"", error)


def by_scram(first: bytes) -> list[Turn]:
    return [turn(first, SERVER_FIRST), turn(PROOF, SERVER_FINAL)]


def by_token(name: str = "alice") -> bytes:
    return bearer(unsigned_token(name, 60))


def shake(identity: Identity, mechanism: str, error: int = 0) -> Identity:
    identity.on_handshake(mechanism)
    identity.on_handshake_reply(error)
    return identity


def say(identity: Identity, *turns: Turn) -> Principal | None:
    """Let the client and the broker speak; return the principal that this sets."""
    found = None
    for token, answer, error in turns:
        before = identity.principal
        identity.on_token(token)
        assert identity.principal is before, "only the broker's answer counts"
        found = identity.on_token_reply(error, answer) or found
    return found


def known(user: str = "alice") -> Identity:
    """Return the identity of a client that PLAIN has authenticated."""
    identity = shake(Identity(), "PLAIN")
    say(identity, by_plain(user))
    return identity


REFUSALS = (FAILED, ILLEGAL_STATE, -1)
CASES: list[tuple[str, list[Turn], Principal | None]] = [
    ("PLAIN", [by_plain()], ALICE),
    ("PLAIN", [by_plain(authzid="alice")], ALICE),
    ("PLAIN", [by_plain(), by_plain("bob")], ALICE),  # only the first token names the user
    *(("PLAIN", [by_plain(error=error), by_plain()], None) for error in REFUSALS),
    ("PLAIN", [by_plain(authzid="bob")], NAMELESS),  # Kafka refuses it; it may be either of both
    *(
        ("PLAIN", [turn(token)], NAMELESS)  # only the broker knows the user: not ANONYMOUS
        for token in (b"", b"alice", b"\0alice", b"\0\xff\0secret", plain("a" * 2000, "x"))
    ),
    ("SCRAM-SHA-256", by_scram(scram("alice")), ALICE),
    ("SCRAM-SHA-512", by_scram(scram("alice")), ALICE),
    ("SCRAM-SHA-512", by_scram(scram("a=2Cb=3D")), Principal("a,b=", "sasl")),
    ("SCRAM-SHA-512", by_scram(scram("a=2cb")), NAMELESS),  # no other escape is legal
    ("SCRAM-SHA-256", by_scram(scram("alice", "bob")), NAMELESS),
    # the first message has the id of a delegation token in place of the name: its owner may be known
    ("SCRAM-SHA-256", by_scram(scram("alice", extensions=",tokenauth=true")), NAMELESS),
    ("SCRAM-SHA-256", by_scram(scram("token-7", extensions=",tokenauth=true")), ALICE),
    ("SCRAM-SHA-256", [turn(scram("token-7", extensions=",tokenauth=true"), SERVER_FIRST)], None),
    # a signature that is missing, too early or too late, and a wrong proof
    ("SCRAM-SHA-256", [turn(scram("alice"), SERVER_FINAL)], None),
    ("SCRAM-SHA-256", [turn(scram("alice")), turn(PROOF)], None),
    ("SCRAM-SHA-256", [turn(scram("alice"), SERVER_FIRST), turn(PROOF, SERVER_FIRST)], None),
    ("SCRAM-SHA-256", [turn(scram("alice"), SERVER_FIRST), turn(PROOF, b"e=invalid-proof")], None),
    (
        "SCRAM-SHA-256",
        [turn(scram("alice"), SERVER_FIRST), turn(PROOF), turn(PROOF, SERVER_FINAL)],
        None,
    ),
    ("SCRAM-SHA-256", [turn(scram("alice"), SERVER_FIRST), turn(PROOF, error=FAILED)], None),
    ("OAUTHBEARER", [turn(by_token())], ALICE),
    ("OAUTHBEARER", [turn(by_token().replace(b"n,,", b"n,a=alice,"))], ALICE),
    ("OAUTHBEARER", [turn(by_token().replace(b"n,,", b"n,a=bob,"))], NAMELESS),
    *(
        ("OAUTHBEARER", [turn(token)], NAMELESS)
        for token in (bearer("opaque"), b"n,,x", bearer("a.b.c"), by_token("x" * 1025))
    ),
    ("OAUTHBEARER", [turn(by_token(), error=FAILED)], None),
    # the error is in a success reply; a broker that accepts the client's acknowledgement lies
    ("OAUTHBEARER", [turn(by_token(), b'{"status":"invalid_token"}'), turn(b"\x01")], None),
    *(
        (mechanism, [turn(plain("alice", "x"), b"challenge"), by_plain()], NAMELESS)
        for mechanism in ("GSSAPI", "AWS_MSK_IAM", "plain", "", "x" * LONGEST)
    ),
]


@pytest.mark.parametrize(("mechanism", "turns", "principal"), CASES)
def test_the_principal_follows_from_the_mechanism_its_tokens_and_the_answers(
    mechanism: str, turns: list[Turn], principal: Principal | None
) -> None:
    """It is set with the answer that completes the mechanism, and the exchange is over then or with a refusal."""
    identity = Identity("sub", owners={"token-7": "alice"})
    assert (identity.principal, identity.authenticating) == (None, False)
    identity.on_handshake(mechanism)
    assert (identity.principal, identity.authenticating) == (None, True)
    identity.on_handshake_reply(0)
    assert (identity.principal, identity.authenticating) == (None, True)
    assert say(identity, *turns) == identity.principal == principal
    refused = any(error for _, _, error in turns)
    assert identity.authenticating is not (refused or principal is not None)


def test_without_a_claim_in_the_settings_no_token_names_a_user() -> None:
    """The users of tokens are then UNKNOWN together."""
    assert say(shake(Identity(), "OAUTHBEARER"), turn(by_token())) == NAMELESS


@pytest.mark.parametrize("error", [UNSUPPORTED, ILLEGAL_STATE, None])
def test_no_token_counts_without_an_accepted_handshake(error: int | None) -> None:
    """After error 33 the broker closes; after error 34 the connection stays as it was. A reply alone does no harm."""
    identity = Identity()
    identity.on_handshake_reply(0)
    assert identity.on_token_reply(0, SERVER_FINAL) is None
    if error is not None:
        shake(identity, "PLAIN", error)
    assert not identity.authenticating
    assert say(identity, by_plain()) is None
    assert identity.principal is None


# --- re-authentication (KIP-368); `test_identity_laws.py` has those that change nothing ---------


@pytest.mark.parametrize(
    ("mechanism", "turns", "words"),
    [
        ("PLAIN", [by_plain("bob")], "'alice' re-authenticated as 'bob'"),
        ("SCRAM-SHA-256", by_scram(scram("alice")), "by 'SCRAM-SHA-256', before by 'PLAIN'"),
        ("AWS_MSK_IAM", [turn(b"")], "by 'AWS_MSK_IAM', before by 'PLAIN'"),
    ],
)
def test_re_authentication_by_another_user_or_mechanism_ends_the_session(
    mechanism: str, turns: list[Turn], words: str
) -> None:
    """Kafka refuses both; a broker that accepts one is not trusted."""
    identity = shake(known(), mechanism)
    assert identity.authenticating
    with pytest.raises(PrincipalChangedError, match=words) as raised:
        say(identity, *turns)
    assert raised.value.reason is CloseReason.PRINCIPAL_CHANGED
    assert identity.principal == ALICE


def test_a_known_and_an_unknown_principal_are_not_compared() -> None:
    """A delegation token before or after a password: the name counts, since the broker allows no other user."""
    with_token = scram("id", extensions=",tokenauth=true")
    for first, second in ((scram("alice"), with_token), (with_token, scram("alice"))):
        identity = shake(Identity(), "SCRAM-SHA-256")
        say(identity, *by_scram(first))
        shake(identity, "SCRAM-SHA-256")
        assert say(identity, *by_scram(second)) == ALICE == identity.principal


def test_long_or_strange_names_are_cut_and_escaped_in_the_reason() -> None:
    """It is written to a log."""
    identity = shake(known("\x1b[2J"), "PLAIN")
    with pytest.raises(PrincipalChangedError) as raised:
        say(identity, by_plain("\x1b" * MAX_NAME_CHARS))
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 1100


# --- by bodies -----------------------------------------------------------------------------------


def token_body(version: int, token: bytes) -> bytes:
    return sasl.authenticate(1, token, version)[19 + (version >= 2) :]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_principal_is_read_from_bodies(version: int) -> None:
    """A whole SCRAM exchange as it lies on the wire, in every version; other APIs may pass in between."""
    identity = Identity()
    identity.on_sasl_request(f.SASL_HANDSHAKE, 1, f.string("SCRAM-SHA-256"))
    assert identity.on_sasl_reply(f.SASL_HANDSHAKE, 1, pack(">hi", 0, 0)) is None
    identity.on_sasl_request(f.SASL_AUTHENTICATE, version, token_body(version, scram("alice")))
    challenge = sasl.authenticate_body(SERVER_FIRST, 0, version)
    assert identity.on_sasl_reply(f.SASL_AUTHENTICATE, version, challenge) is None
    identity.on_sasl_request(f.SASL_AUTHENTICATE, version, token_body(version, PROOF))
    final = sasl.authenticate_body(SERVER_FINAL, 0, version)
    identity.on_sasl_request(f.HEARTBEAT, 0, token_body(version, scram("bob")))
    assert identity.on_sasl_reply(f.HEARTBEAT, 0, final) is None
    assert identity.on_sasl_reply(f.SASL_AUTHENTICATE, version, final) == ALICE


def test_a_malformed_token_makes_the_principal_unknown() -> None:
    """The broker refuses it; if it does not, only the broker knows the user. A malformed reply is its fault."""
    identity = Identity()
    identity.on_sasl_request(f.SASL_HANDSHAKE, 1, b"\x00\x09PLAIN")
    identity.on_sasl_reply(f.SASL_HANDSHAKE, 1, b"\x00\x00")
    identity.on_sasl_request(f.SASL_AUTHENTICATE, 1, b"\x00\x00\x00\xff" + plain("alice", "x"))
    with pytest.raises(WireError):
        identity.on_sasl_reply(f.SASL_AUTHENTICATE, 1, b"\x00\x00")
    assert identity.principal is None
    assert identity.on_sasl_reply(f.SASL_AUTHENTICATE, 1, sasl.authenticate_body()) == NAMELESS
