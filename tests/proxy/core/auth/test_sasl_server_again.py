"""One connection's re-authentication (KIP-368), as a Kafka broker does it, and users that change meanwhile."""

import struct

import pytest

from proxy.core.auth.sasl_answers import Step, UncheckedPassword
from proxy.core.auth.sasl_server import (
    MIN_REAUTH_INTERVAL_MS,
    AuthenticationRequiredError,
    SessionExpiredError,
)
from proxy.core.auth.stored_users import Users, new_credential
from proxy.core.errors import PrincipalChangedError
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram, plain
from tests.support.shell.sasl_service import Client, credentials, message_of, password_of, verified
from wire.apis import ApiKey
from wire.sasl import authenticate_reply

GENERIC = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"
WRONG = "Authentication failed: Invalid username or password"
LIFETIME_MS = 60_000
ALICE = plain("alice", password_of("alice"))


def signed_in(max_reauth_ms: int = LIFETIME_MS) -> Client:
    """Return a client that is alice, for a minute."""
    client = Client(max_reauth_ms)
    client.shake("PLAIN")
    reply = authenticate_reply(client.say(ALICE).body, 1)
    assert reply.session_lifetime_ms == max_reauth_ms
    assert client.authentication.expires_ms == client.now_ms + max_reauth_ms
    client.now_ms += LIFETIME_MS // 2
    return client


def test_the_same_user_may_authenticate_again() -> None:
    """Then the time begins again; meanwhile only tokens may come."""
    client = signed_in()
    assert client.shake("PLAIN") == 0
    with pytest.raises(AuthenticationRequiredError):
        client.allow(ApiKey.PRODUCE)
    assert client.authentication.user == "alice"
    assert authenticate_reply(client.say(ALICE).body, 1).session_lifetime_ms == LIFETIME_MS
    assert client.authentication.expires_ms == client.now_ms + LIFETIME_MS
    client.allow(ApiKey.PRODUCE)


def test_another_user_is_refused_with_kafkas_message() -> None:
    """The old user stays the only one, until the connection is closed."""
    client = signed_in()
    client.shake("PLAIN")
    message = message_of(client.say(plain("bob", password_of("bob"))))
    words = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert message == words
    assert client.authentication.user == "alice"
    assert not client.authentication.is_open


def test_another_mechanism_is_refused_after_the_handshake() -> None:
    """Kafka answers the handshake, and closes at the next request, whichever it is."""
    client = signed_in()
    assert client.shake("SCRAM-SHA-256") == 0
    for api_key in (ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA):
        with pytest.raises(
            PrincipalChangedError, match="'alice' re-authenticates by SCRAM-SHA-256"
        ):
            client.allow(api_key)


def test_a_wrong_password_ends_a_re_authentication() -> None:
    """With the message for this case."""
    client = Client(LIFETIME_MS)
    alice = Scram("SCRAM-SHA-256", "alice", password_of("alice"))
    client.scram(alice)
    client.now_ms += 10
    message = message_of(client.scram(Scram("SCRAM-SHA-256", "alice", "wrong")))
    assert message == GENERIC.format("re-authentication", "SCRAM-SHA-256")


def test_a_client_may_not_authenticate_twice_in_a_second() -> None:
    """The second attempt gets ILLEGAL_SASL_STATE, and the connection stays."""
    client = signed_in()
    client.shake("PLAIN")
    client.say(ALICE)
    client.now_ms += MIN_REAUTH_INTERVAL_MS - 1
    assert client.shake("PLAIN") == sasl.ILLEGAL_STATE
    assert client.authentication.is_open
    client.now_ms += 1
    assert client.shake("PLAIN") == 0


def test_after_its_time_a_client_may_only_authenticate_again() -> None:
    """Any other request ends the connection."""
    client = signed_in()
    client.authentication.is_expired = True
    for api_key in (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE):
        with pytest.raises(SessionExpiredError, match=f"{api_key.name} after {LIFETIME_MS} ms"):
            client.allow(api_key)
    assert client.shake("PLAIN") == 0
    client.say(ALICE)
    assert client.authentication.is_open


def test_an_expired_client_that_tries_twice_in_a_second_is_closed() -> None:
    """As in Kafka, where the handshake is then an ordinary request of an expired connection."""
    client = signed_in(500)
    client.shake("PLAIN")
    client.say(ALICE)
    client.now_ms += 600
    client.authentication.is_expired = True
    with pytest.raises(SessionExpiredError):
        client.allow(ApiKey.SASL_HANDSHAKE)


def test_a_pending_password_does_not_print_itself() -> None:
    """Neither by repr nor by str."""
    client = Client()
    client.shake("PLAIN")
    pending = client.authentication.on_token(struct.pack(">i", len(ALICE)) + ALICE, 1, 0)
    assert isinstance(pending, UncheckedPassword)
    assert "secret" not in f"{pending!r} {pending}"


# -- the users file changes meanwhile -----------------------------------------------------------


def test_a_user_who_was_removed_meanwhile_does_not_get_in() -> None:
    """Between the first message and the last, or while the password is verified."""
    client = Client()
    exchange = Scram("SCRAM-SHA-256", "alice", password_of("alice"))
    client.shake("SCRAM-SHA-256")
    first = authenticate_reply(client.say(exchange.first).body, 1).auth_bytes
    client.server.users = type(client.server.users)()
    assert client.say(exchange.final(first)).outcome is Step.FAILED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_that_is_changed_meanwhile_does_not_count_any_more(mechanism: str) -> None:
    """An exchange that began with the old one fails; a file that changed for others only ends none."""
    for new, outcome in (("another", Step.FAILED), (password_of("alice"), Step.SUCCEEDED)):
        client = Client()
        keys = [
            (name, new_credential(each.mechanism, new.encode(), each.salt, each.iterations))
            for name, each in credentials(("alice",))
        ]
        client.shake(mechanism)
        if mechanism == "PLAIN":
            token = plain("alice", password_of("alice"))
            found = client.authentication.on_token(struct.pack(">i", len(token)) + token, 1, 0)
            assert isinstance(found, UncheckedPassword)
            client.server.users = Users((*keys, *credentials(("zoe",))))
            answer = verified(client.authentication, client.checker, found, 0)
        else:
            exchange = Scram(mechanism, "alice", password_of("alice"))
            first = authenticate_reply(client.say(exchange.first).body, 1).auth_bytes
            client.server.users = Users((*keys, *credentials(("zoe",))))
            answer = client.say(exchange.final(first))
        assert answer.outcome is outcome
