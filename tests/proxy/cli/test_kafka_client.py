"""The Kafka connection of the command line: requests, logins, and an error in words for each failure."""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from kafka.protocol.admin import DescribeClientQuotasRequest

from proxy.admin.errors import UnreachableError
from proxy.cli.kafka_client import Connection, Login, error_name
from proxy.config.security import UpstreamTls
from proxy.config.values import split_server
from tests.support.faults.stub_broker import CLOSE, StubBroker
from tests.support.messages import frames as f
from tests.support.quotas.quota_book import QuotaServer
from tests.support.shell.certificates import Authority
from tests.support.shell.tls_front import TlsFront

USERS = {"root": "sesame", "a=b,c": "open,=me"}


def ask(connection: Connection) -> list[object]:
    request = DescribeClientQuotasRequest(version=1, components=[], strict=False)
    return connection.ask(request).entries


def test_the_text_of_a_login_hides_its_password() -> None:
    """It may appear in a traceback or in a debug log."""
    login = Login("root", USERS["root"], "PLAIN")
    assert USERS["root"] not in f"{login} {login!r}"
    assert "root" in repr(login)


def test_two_requests_are_answered_on_one_connection() -> None:
    """Each call returns the response to its own request."""
    with QuotaServer() as server, Connection(server.server, None) as connection:
        assert ask(connection) == ask(connection) == []
        assert server.connected == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", USERS)
def test_a_client_logs_in_with_every_mechanism(mechanism: str, user: str) -> None:
    """The user name may have any character."""
    login = Login(user, USERS[user], mechanism)
    with QuotaServer(users=USERS) as server, Connection(server.server, login) as connection:
        assert server.user == user
        assert ask(connection) == []


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (Login("root", "guess", "PLAIN"), "root could not log in: wrong password"),
        (Login("root", "guess", "SCRAM-SHA-256"), "root could not log in: wrong password"),
        (Login("root", "sesame", "SCRAM-SHA-512"), r"not offer SCRAM-SHA-512: it offers PLAIN, "),
    ],
)
def test_a_refused_login_is_reported(login: Login, words: str) -> None:
    """The error has the user's name and the server's message, or the mechanisms that the server offers."""
    with (
        QuotaServer(users=USERS, mechanisms=["PLAIN", "SCRAM-SHA-256"]) as server,
        pytest.raises(UnreachableError, match=words),
    ):
        Connection(server.server, login)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    """SCRAM authenticates both sides: a wrong server signature ends the login."""

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
        pytest.raises(UnreachableError, match="failed to authenticate itself"),
    ):
        Connection(server.server, Login("root", "sesame", "SCRAM-SHA-256"))


def test_a_server_that_sends_now_and_then_is_not_waited_for() -> None:
    """The timeout is for the whole answer: a byte each time does not begin it again."""
    done = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"\x00\x00\xff\xff")
            while not done.wait(0.02):
                connection.sendall(b"\x00")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        server = "{}:{}".format(*listener.getsockname())
        try:
            with (
                Connection(server, None, timeout_s=0.2) as connection,
                pytest.raises(UnreachableError, match="no answer in time"),
            ):
                ask(connection)
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (CLOSE, r"closed the connection\. It may require --tls or --login"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the Kafka protocol"),
        (b"\0\0\0\x04\0\0\0\x63", "does not speak the Kafka protocol"),  # of another request
        (None, "does not answer: no answer in time"),
    ],
    ids=["it closes", "HTTP", "another reply", "silence"],
)
def test_a_server_that_gives_no_answer_of_its_own_is_reported(
    said: bytes | None, words: str
) -> None:
    """A server that requires a login closes without an answer; the wait has a timeout."""
    with (
        StubBroker(lambda _: said) as server,
        Connection(server.server, None, timeout_s=0.05 if said is None else 30) as connection,
        pytest.raises(UnreachableError, match=words),
    ):
        ask(connection)


def test_a_failed_login_closes_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors here, and an unclosed socket would be one."""
    made: list[socket.socket] = []
    real = socket.create_connection

    def create(*arguments: object) -> socket.socket:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", create)
    with QuotaServer(users=USERS) as server, pytest.raises(UnreachableError):
        Connection(server.server, Login("root", "guess", "PLAIN"))
    assert [each.fileno() for each in made] == [-1]


def test_error_codes_are_reported_by_name() -> None:
    """The name is Kafka's; an unknown code stays a number."""
    assert error_name(42) == "INVALID_REQUEST"
    assert error_name(9999) == "error code 9999"


def front(server: QuotaServer, authority: Authority, name: str = "127.0.0.1") -> TlsFront:
    """Return TLS before a server; each client must show a certificate of the same authority."""
    return TlsFront(split_server(server.server), authority.issue(name), str(authority.ca_file))


def test_a_client_shows_its_certificate_and_logs_in_inside_of_tls(authority: Authority):
    """The server's certificate is verified by the given authority."""
    own = authority.issue("client")
    tls = UpstreamTls(
        ca_file=str(authority.ca_file), cert_file=str(own.cert_file), key_file=str(own.key_file)
    )
    login = Login("root", USERS["root"], "SCRAM-SHA-256")
    with QuotaServer(users=USERS) as server, front(server, authority) as before:
        with Connection(before.server, login, tls) as connection:
            assert ask(connection) == []
        assert (server.user, before.versions) == ("root", ["TLSv1.3"])


def test_a_server_with_another_name_or_of_another_authority_is_refused(
    authority: Authority, tmp_path: Path
):
    """The reason is OpenSSL's; nothing was sent but the handshake."""
    trusted = UpstreamTls(ca_file=str(authority.ca_file))
    stranger = UpstreamTls(ca_file=str(Authority(tmp_path).ca_file))
    with QuotaServer() as server, front(server, authority, "elsewhere") as before:
        for tls, why in (
            (trusted, "IP address mismatch"),
            (stranger, "certificate"),
        ):
            with pytest.raises(UnreachableError, match=f"No TLS connection to .*: .*{why}"):
                Connection(before.server, None, tls)
        assert server.connected == 0


def test_the_name_of_the_settings_replaces_the_host_that_is_dialled(authority: Authority):
    """A listener is dialled at its local address, and has the certificate of its advertised host."""
    pair = authority.issue("kafka.example")
    tls = UpstreamTls(ca_file=str(pair.cert_file), server_name="kafka.example")
    with (
        QuotaServer() as server,
        TlsFront(split_server(server.server), pair) as before,
        Connection(before.server, None, tls) as connection,
    ):
        assert ask(connection) == []


def test_a_server_without_tls_is_reported(authority: Authority):
    """It does not answer the handshake as TLS does."""
    tls = UpstreamTls(ca_file=str(authority.ca_file))
    with QuotaServer() as server, pytest.raises(UnreachableError, match="No TLS connection to"):
        Connection(server.server, None, tls, timeout_s=1)


def test_files_that_cannot_be_used_are_named(tmp_path: Path):
    """The file is missing, or is no PEM."""
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate", encoding="ascii")
    with QuotaServer() as server:
        for file in (junk, tmp_path / "absent.pem"):
            with pytest.raises(UnreachableError, match=f"ca_file .*{file.name}: "):
                Connection(server.server, None, UpstreamTls(ca_file=str(file)))
