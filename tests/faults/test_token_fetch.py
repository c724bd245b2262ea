"""A token endpoint that is slow: clients wait for it, and the end of the process does not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames
from tests.support.processes.sluice_process import SluiceProcess

LONGEST_S = 120
"""Below the time that Sluice has for a token (20 s)."""


class Trickle:
    """An endpoint whose answer comes a byte at a time, and does not end."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ending = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/token"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ending.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            with client:
                client.recv(65536)
                self.asked.set()
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not self._ending.is_set():
                    client.sendall(b" ")
                    self._ending.wait(0.1)


@pytest.fixture
def endpoint() -> Iterator[Trickle]:
    with closing(Trickle()) as made:
        yield made


def test_a_process_that_is_to_end_does_not_wait_for_a_token(
    start: Callable[..., SluiceProcess],
    broker: StubBroker,
    endpoint: Trickle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its clients are closed, and the exit code is 0."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    custody = {
        "mechanism": "OAUTHBEARER",
        "token_endpoint_url": endpoint.url,
        "client_id": "sluice",
    }
    sluice = start(
        broker.server,
        upstream_settings={"sasl": custody},
        settings={"drain": {"timeout_ms": 500}},
        variables={"SLUICE_UPSTREAM_SASL_CLIENT_SECRET": "secret"},
    )
    with socket.create_connection(("127.0.0.1", sluice.port), 60) as client:
        client.sendall(frames.heartbeat(1))  # a client that says nothing costs no token
        await_that(endpoint.asked.is_set, "the request for a token")
        began = time.monotonic()
        sluice.stop()
        assert time.monotonic() - began < LONGEST_S
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
