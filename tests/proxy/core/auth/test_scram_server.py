"""The server's side of SCRAM, against the published examples and against a client written by hand."""

import base64

import pytest

from proxy.core.auth.scram import MECHANISMS, SCRAM_SHA_256, ScramError
from proxy.core.auth.scram_server import ScramExchange
from proxy.core.auth.stored_users import Users, new_credential
from tests.support.messages.sasl import Scram
from tests.support.shell.sasl_service import credentials, password_of

USERS = Users(credentials())


def test_the_example_of_rfc_7677_is_answered_byte_for_byte() -> None:
    """User `user`, password `pencil`, with the RFC's nonces and salt."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Users([("user", new_credential(SCRAM_SHA_256, b"pencil", salt, 4096))])
    exchange = ScramExchange(
        "SCRAM-SHA-256",
        users,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    )

    assert exchange.challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.maybe_verify(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("authzid", ["", "alice"])
def test_a_right_password_is_verified(mechanism: str, authzid: str) -> None:
    """With and without the same authzid, by both mechanisms."""
    client = Scram(mechanism, "alice", password_of("alice"), authzid)
    exchange = ScramExchange(mechanism, USERS, "server", client.first)

    assert (exchange.user, exchange.has_other_authzid) == ("alice", False)
    assert (exchange.maybe_verify(client.final(exchange.challenge)) or b"").startswith(b"v=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("alice", "x"), ("mallory", "mallory-secret")])
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_message(
    mechanism: str, name: str, password: str
) -> None:
    """Both get a challenge of the same form, and no signature."""
    client = Scram(mechanism, name, password)
    exchange = ScramExchange(mechanism, USERS, "server", client.first)
    known = ScramExchange(mechanism, USERS, "server", Scram(mechanism, "alice", "").first)

    assert exchange.challenge.endswith(b",i=4096")
    assert len(exchange.challenge) == len(known.challenge)
    assert exchange.maybe_verify(client.final(exchange.challenge)) is None


def test_another_identity_to_act_as_is_noticed() -> None:
    """Kafka has a message of its own for it."""
    token = Scram("SCRAM-SHA-256", "alice", "x", "bob").first

    assert ScramExchange("SCRAM-SHA-256", USERS, "server", token).has_other_authzid


def test_a_proof_counts_for_its_own_exchange_only() -> None:
    """Another nonce, another channel or a replayed message is no proof."""
    client = Scram("SCRAM-SHA-256", "alice", password_of("alice"))
    first = ScramExchange("SCRAM-SHA-256", USERS, "one", client.first)
    proof = client.final(first.challenge)
    second = ScramExchange("SCRAM-SHA-256", USERS, "two", client.first)
    assert second.maybe_verify(proof) is None

    third = ScramExchange("SCRAM-SHA-256", USERS, "one", client.first)
    bound = Scram("SCRAM-SHA-256", "alice", password_of("alice"), "alice")
    assert third.maybe_verify(bound.final(third.challenge)) is None


@pytest.mark.parametrize(
    "token", [b"", b"n,,n=alice", b"p=tls-unique,,n=alice,r=x", b"n,,n=alice,r=x,tokenauth=true"]
)
def test_a_first_message_that_is_not_supported_is_refused(token: bytes) -> None:
    """Malformed, with channel binding, or by delegation token."""
    with pytest.raises(ScramError):
        ScramExchange("SCRAM-SHA-256", USERS, "server", token)
