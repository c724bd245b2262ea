"""The server's side of SCRAM against the published example. `test_sasl_server.py` has its failures."""

import base64

from proxy.core.auth.scram import SCRAM_SHA_256
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
