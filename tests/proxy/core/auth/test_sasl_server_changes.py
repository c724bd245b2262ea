"""An authentication during which the users file changes."""

import struct

import pytest

from proxy.core.auth.sasl_server import Step, UncheckedPassword
from proxy.core.auth.stored_users import Users, new_credential
from tests.support.messages.sasl import Scram, plain
from tests.support.shell.sasl_service import Client, credentials, password_of, verified
from wire.sasl import authenticate_reply


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
