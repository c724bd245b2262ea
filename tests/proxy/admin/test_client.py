"""The HTTP client of the admin server: a Unix socket or an address with a token, and its errors."""

import http.server
import json
import socket
import socketserver
import threading

import pytest

from proxy.admin.client import AdminAddress, AdminClient
from proxy.admin.errors import NO_PATH, RefusedError, UnreachableError


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the test set it up, and remembers the requests."""

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.path, dict(self.headers), self._body()))
        status, body = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_DELETE = do_GET  # noqa: N815 - the names http.server looks for

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Tcp(socketserver.TCPServer):
    asked: list
    answer: tuple[int, bytes]


class Unix(socketserver.UnixStreamServer):
    asked: list
    answer: tuple[int, bytes]


@pytest.fixture(params=[Tcp, Unix])
def server(request, tmp_path):
    where = ("127.0.0.1", 0) if request.param is Tcp else str(tmp_path / "s")
    with request.param(where, Handler) as made:
        made.asked, made.answer = [], (200, b'{"a": 1}')
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def place(server) -> AdminAddress:
    where = server.server_address
    if isinstance(where, str):
        return AdminAddress(path=where)
    return AdminAddress(address=f"{where[0]}:{where[1]}", token="secret-token")  # noqa: S106 - a test's own


def test_a_request_and_its_answer_are_json(server):
    """The token is sent where there is one; the answer to closing a connection has no body."""
    assert AdminClient(place(server)).ask("PUT", "/v1/x?a=b", {"c": 1}) == {"a": 1}
    ((method, path, headers, body),) = server.asked
    assert (method, path, json.loads(body)) == ("PUT", "/v1/x?a=b", {"c": 1})
    assert headers["Content-Type"] == "application/json"
    token = "Bearer secret-token" if isinstance(server, Tcp) else None
    assert headers.get("Authorization") == token

    server.answer = (200, b"")
    assert AdminClient(place(server)).get("/") == {}


def test_a_refusal_has_the_servers_message_or_one_of_its_own(server):
    """All problems that the server lists are in it; a status code alone is not an explanation."""
    server.answer = (409, b'{"error": "not now", "problems": ["x"]}')
    with pytest.raises(RefusedError, match="not now") as refused:
        AdminClient(place(server)).get("/")
    assert (refused.value.code, refused.value.problems) == (409, ("x",))

    for status, words in ((422, "nothing was changed"), (401, "token"), (418, "HTTP status 418")):
        server.answer = (status, b"")
        with pytest.raises(RefusedError, match=words):
            AdminClient(place(server)).get("/")


def test_a_listener_without_control_is_named(server):
    """The address given is the one of the probes."""
    server.answer = (404, json.dumps({"error": NO_PATH}).encode())
    client = AdminClient(place(server))
    for asked in (lambda: client.get("/v1/state"), lambda: next(client.events())):
        with pytest.raises(RefusedError, match="probes and metrics only"):
            asked()


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"\xff"])
def test_a_server_that_does_not_answer_in_json_is_not_a_sluice(server, body):
    """Another program listens at that address."""
    server.answer = (200, body)
    with pytest.raises(UnreachableError, match="No Sluice answers at"):
        AdminClient(place(server)).get("/")


def test_events_come_one_by_one_until_the_server_ends(server):
    """Lines that are not data are skipped."""
    server.answer = (200, b'event: state\ndata: {"n": 1}\n\n: still here\n\ndata: {"n": 2}\n\n')
    assert [event["n"] for event in AdminClient(place(server)).events()] == [1, 2]
    server.answer = (503, b'{"error": "too many"}')
    with pytest.raises(RefusedError, match="too many"):
        next(AdminClient(place(server)).events())


def test_an_unreachable_sluice_is_reported_with_a_remedy(tmp_path, monkeypatch):
    """No socket, a dead one, another user's, a port where no process listens, a server that never answers."""

    def said(where: AdminAddress) -> str:
        with pytest.raises(UnreachableError) as raised:
            AdminClient(where).get("/")
        return str(raised.value)

    path = str(tmp_path / "none")
    missing = said(AdminAddress(path=path))
    assert missing.startswith(f"No Sluice answers at {path}: the socket does not exist. Start `s")
    assert missing.endswith("give the path of its admin.socket.")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = said(AdminAddress(address=f"127.0.0.1:{port}"))
    assert (
        "refused. Start `sluice run`, and check that its admin.control is this address." in refused
    )
    dead = str(tmp_path / "dead")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(dead)
        silent.listen()
        monkeypatch.setattr("proxy.admin.client.TIMEOUT_S", 0.01)
        assert "did not answer in time" in said(AdminAddress(path=dead))
    assert "refused. Start" in said(AdminAddress(path=dead))
    assert "host name is unknown" in said(AdminAddress(address="no-such-host.invalid:1"))

    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    assert "Ask as the user that runs Sluice, or as root" in said(AdminAddress(path=dead))


def test_a_server_that_closes_is_told_apart_from_one_that_is_not_a_sluice(tmp_path):
    """One closes without an answer, the other answers in another protocol."""
    for spoken, words in ((b"", "closed the connection"), (b"\0\0\0\1x", "not the admin server")):
        path = str(tmp_path / f"s{len(spoken)}")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()

            def answer(listening: socket.socket = listening, spoken: bytes = spoken) -> None:
                accepted, _ = listening.accept()
                with accepted:
                    accepted.recv(65536)
                    accepted.sendall(spoken)

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(UnreachableError, match=words):
                AdminClient(AdminAddress(path=path)).get("/")
            thread.join()
