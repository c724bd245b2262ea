"""The tool's connection: it asks, logs in, and says in a sentence what went wrong."""

from __future__ import annotations

import socket
import struct

import pytest
from kafka.protocol.admin import DescribeClientQuotasRequest

from bench.harness.ports import free_ports
from proxy.cli.errors import UnreachableError
from proxy.cli.kafka_client import Connection, Login, error_name
from tests.support import frames as f
from tests.support.quota_book import QuotaServer
from tests.support.stub_broker import CLOSE, StubBroker

USERS = {"root": "sesame", "a=b,c": "open,=me"}


def ask(connection: Connection) -> list[object]:
    request = DescribeClientQuotasRequest(version=1, components=[], strict=False)
    return connection.ask(request).entries


def test_a_password_is_not_shown_where_a_login_is() -> None:
    """A traceback, or a line for debugging."""
    login = Login("root", USERS["root"], "PLAIN")
    assert USERS["root"] not in f"{login} {login!r}"
    assert "root" in repr(login)


def test_it_asks() -> None:
    """A request, its response, and another on the same connection."""
    with QuotaServer() as server, Connection(server.server, None) as connection:
        assert ask(connection) == ask(connection) == []
        assert server.connected == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", USERS)
def test_it_logs_in(mechanism: str, user: str) -> None:
    """By every mechanism, whatever letters a name has."""
    login = Login(user, USERS[user], mechanism)
    with QuotaServer(users=USERS) as server, Connection(server.server, login) as connection:
        assert server.user == user
        assert ask(connection) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_said(mechanism: str) -> None:
    """With the name and the other side's words."""
    with (
        QuotaServer(users=USERS) as server,
        pytest.raises(UnreachableError, match="root could not log in: wrong password"),
    ):
        Connection(server.server, Login("root", "guess", mechanism))


def test_a_server_that_does_not_know_the_password_is_caught() -> None:
    """SCRAM proves both ways: a false server signature is not believed."""

    def answer(request: bytes) -> bytes:
        key, _, ident = struct.unpack_from(">hhi", request, 4)
        if key == f.SASL_HANDSHAKE:
            return f.reply(ident, struct.pack(">hi", 0, 1) + f.string("SCRAM-SHA-256"))
        first = b"n,,n=root,r="
        at = request.find(first)
        token = b"v=bGllcw=="
        if at >= 0:
            token = b"r=" + request[at + len(first) :] + b"x,s=c2FsdA==,i=4096"
        told = struct.pack(">h", 0) + f.string(None) + struct.pack(">i", len(token)) + token
        return f.reply(ident, told)

    with (
        StubBroker(answer) as server,
        pytest.raises(UnreachableError, match="is not who it says it is"),
    ):
        Connection(server.server, Login("root", "sesame", "SCRAM-SHA-256"))


def test_another_mechanism_is_named() -> None:
    """What is offered is what the user must say."""
    with (
        QuotaServer(users=USERS, mechanisms=["PLAIN"]) as server,
        pytest.raises(UnreachableError, match=r"does not take SCRAM-SHA-512: it offers PLAIN\."),
    ):
        Connection(server.server, Login("root", "sesame", "SCRAM-SHA-512"))


def test_nobody_there() -> None:
    """A port that nobody listens on."""
    port = free_ports()
    with pytest.raises(UnreachableError, match=f"Nothing answers at 127.0.0.1:{port}: "):
        Connection(f"127.0.0.1:{port}", None)


def test_whoever_hangs_up() -> None:
    """A server that wants a login closes without a word."""
    with (
        StubBroker(lambda _: CLOSE) as server,
        Connection(server.server, None) as connection,
        pytest.raises(UnreachableError, match=r"hung up\. It may want a --login"),
    ):
        ask(connection)


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x63"]
)
def test_whoever_speaks_no_kafka(said: bytes) -> None:
    """Neither another protocol nor another request's reply is taken for an answer."""
    with (
        StubBroker(lambda _: said) as server,
        Connection(server.server, None) as connection,
        pytest.raises(UnreachableError, match="speaks no Kafka"),
    ):
        ask(connection)


def test_whoever_says_nothing() -> None:
    """There is an end to waiting."""
    with (
        StubBroker(lambda _: None) as server,
        Connection(server.server, None, timeout_s=0.05) as connection,
        pytest.raises(UnreachableError, match="does not answer: no answer in time"),
    ):
        ask(connection)


def test_a_failed_login_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors here: an unclosed socket would be one."""
    made: list[socket.socket] = []
    real = socket.create_connection

    def create(*arguments: object) -> socket.socket:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", create)
    with QuotaServer(users=USERS) as server, pytest.raises(UnreachableError):
        Connection(server.server, Login("root", "guess", "PLAIN"))
    assert [each.fileno() for each in made] == [-1]


def test_codes_have_names() -> None:
    """Kafka's name where it is known."""
    assert error_name(42) == "INVALID_REQUEST"
    assert error_name(9999) == "error code 9999"
