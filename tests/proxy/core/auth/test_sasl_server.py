"""One connection's authentication: the replies of a Kafka broker, for every order of requests."""

import re
import struct

import pytest

from proxy.core.auth.sasl_answers import Answer, Step, UncheckedPassword
from proxy.core.auth.sasl_server import (
    MAX_API_VERSIONS,
    Authentication,
    AuthenticationRequiredError,
)
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram, plain
from tests.support.shell.sasl_service import (
    OFFERED,
    Client,
    message_of,
    password_of,
    verified,
)
from wire.apis import ApiKey
from wire.errors import WireError
from wire.sasl import authenticate_reply

GENERIC = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"
WRONG = "Authentication failed: Invalid username or password"
LIFETIME_MS = 60_000
ALICE = plain("alice", password_of("alice"))


# --- success -----------------------------------------------------------------------------------


def test_a_known_password_is_not_verified_again() -> None:
    """The second connection of a client succeeds at once."""
    client = Client()
    client.shake("PLAIN")
    client.say(ALICE)
    again = Authentication(client.server)
    again.on_handshake(f.string("PLAIN"), 0)
    found = again.on_token(struct.pack(">i", len(ALICE)) + ALICE, 1, 0)
    assert isinstance(found, Answer)
    assert found.outcome is Step.SUCCEEDED


def test_the_handshake_names_our_mechanisms() -> None:
    """Also where the client's own is not among them."""
    for mechanism, code in (("PLAIN", 0), ("GSSAPI", sasl.UNSUPPORTED)):
        client = Client()
        assert client.shake(mechanism) == code
        names = b"".join(map(f.string, OFFERED))
        assert client.answer.body == struct.pack(">hi", code, len(OFFERED)) + names
    assert client.answer.outcome is Step.FAILED
    assert "'GSSAPI' is not one of PLAIN, SCRAM-SHA-256" in client.answer.why


def test_a_mechanism_that_is_switched_off_is_not_supported() -> None:
    """Although the users have keys for it."""
    assert Client(mechanisms=("SCRAM-SHA-512",)).shake("SCRAM-SHA-256") == sasl.UNSUPPORTED


# --- failure -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (plain("alice", "wrong"), WRONG),
        (plain("mallory", "alice-secret"), WRONG),
        (b"\0\xff\0x", WRONG),
        (plain("", "x"), "Authentication failed: username not specified"),
        (plain("alice", ""), "Authentication failed: password not specified"),
        (
            plain("alice", "alice-secret", "bob"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_fails_with_kafkas_message(token: bytes, message: str) -> None:
    """And says to the operator which user it was, but no password."""
    client = Client()
    client.shake("PLAIN")
    answer = client.say(token)
    assert message_of(answer) == message
    assert not client.authentication.is_open
    assert "secret" not in answer.why.replace("expected", "")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_fails_in_the_same_way_for_wrong_passwords_and_unknown_users(mechanism: str) -> None:
    """Message by message, byte by byte but the salt and the nonce."""
    said = []
    for name in ("alice", "mallory"):
        client = Client()
        client.shake(mechanism)
        exchange = Scram(mechanism, name, "wrong")
        first = authenticate_reply(client.say(exchange.first).body, 1).auth_bytes
        assert re.fullmatch(rb"r=[^,]+,s=[A-Za-z0-9+/=]+,i=4096", first)
        answer = client.say(exchange.final(first))
        assert message_of(answer) == GENERIC.format("authentication", mechanism)
        said.append(answer.body)
    assert said[0] == said[1]


def test_plain_fails_in_the_same_way_for_wrong_passwords_and_unknown_users() -> None:
    """After a check of the same cost: the same hash function and iterations."""
    checks, said = [], []
    for name in ("alice", "mallory"):
        client = Client()
        client.shake("PLAIN")
        token = plain(name, "wrong")
        found = client.authentication.on_token(struct.pack(">i", len(token)) + token, 1, 0)
        assert isinstance(found, UncheckedPassword)
        checks.append((found.credential.mechanism, found.credential.iterations))
        said.append(verified(client.authentication, client.checker, found, 0).body)
    assert checks[0] == checks[1]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (
            Scram("SCRAM-SHA-256", "alice", "alice-secret", "bob"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (
            Scram("SCRAM-SHA-256", "alice", "alice-secret", extensions=",tokenauth=true"),
            GENERIC.format("authentication", "SCRAM-SHA-256"),
        ),
        (
            Scram("SCRAM-SHA-256", "a=lice", "alice-secret"),
            GENERIC.format("authentication", "SCRAM-SHA-256"),
        ),
    ],
)
def test_a_first_message_that_cannot_succeed_fails_at_once(exchange: Scram, message: str) -> None:
    """Another authzid, a delegation token, a malformed name."""
    assert message_of(Client().scram(exchange)) == message


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\x09abc"])
def test_a_malformed_token_is_a_fault_of_the_protocol(body: bytes) -> None:
    """It ends the connection, as any malformed request."""
    client = Client()
    client.shake("PLAIN")
    with pytest.raises(WireError):
        client.authentication.on_token(body, 1, 0)


# --- which requests may come -------------------------------------------------------------------


ORDINARY = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS)


def test_versions_may_be_asked_a_few_times_and_not_after_the_handshake() -> None:
    """Each one is a request to the broker, and a client without a user must not send many."""
    client = Client()
    for _ in range(MAX_API_VERSIONS):
        client.allow(ApiKey.API_VERSIONS)
        client.allow(ApiKey.API_VERSIONS)  # asked again, because its head had not arrived
        client.authentication.on_api_versions()
    with pytest.raises(AuthenticationRequiredError):
        client.allow(ApiKey.API_VERSIONS)
    client.shake("PLAIN")
    for api_key in (*ORDINARY, ApiKey.API_VERSIONS):
        with pytest.raises(AuthenticationRequiredError, match="during SASL authentication"):
            client.allow(api_key)


def test_a_second_handshake_is_an_illegal_state() -> None:
    """It gets Kafka's error, and the connection ends."""
    client = Client()
    client.shake("PLAIN")
    assert client.shake("PLAIN") == sasl.ILLEGAL_STATE
    assert client.answer.outcome is Step.FAILED


def test_sasl_after_success_is_refused_and_the_connection_stays() -> None:
    """As a broker without re-authentication does it."""
    client = Client()
    client.shake("PLAIN")
    client.say(ALICE)
    assert client.shake("PLAIN") == sasl.ILLEGAL_STATE
    assert client.answer.outcome is Step.CONTINUES
    answer = client.say(ALICE)
    assert authenticate_reply(answer.body, 1).error_code == sasl.ILLEGAL_STATE
    assert b"SaslAuthenticate request received after successful authentication" in answer.body
    assert client.authentication.is_open
