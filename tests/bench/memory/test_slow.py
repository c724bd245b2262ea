"""Case f: its slow clients, and the honest requests beside them."""

import socket
import struct

import pytest

from bench.memory import slow
from bench.memory.frames import produce_frame
from bench.memory.slow import BYTES_PER_SECOND, TICK_SECONDS, SlowClients, Way, ask
from tests.bench.memory.conftest import Behind
from tests.support.shell.sockets import receive

FRAME = produce_frame("t", 1 << 20)
WAY = Way("two slow", 2, 2, whole=False, must_s=(1.0, 1.0))


def test_slow_clients_announce_a_request_and_send_a_part_of_it_in_each_tick() -> None:
    """They come from addresses of their own, and come again when they are disconnected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with SlowClients(listening.getsockname()[1], WAY, FRAME) as clients:
            far = [listening.accept() for _ in range(2)]
            assert {host for _, (host, _) in far} == {"127.0.1.1", "127.0.1.2"}
            part = int(BYTES_PER_SECOND * TICK_SECONDS)
            for each, _ in far:
                assert receive(each, 2 * part) == FRAME[: 2 * part]
            far[0][0].close()
            again, (host, _) = listening.accept()
            assert host == far[0][1][0]
            assert receive(again, 4) == struct.pack(">i", 1 << 20)
        for each in (again, far[1][0]):
            each.close()
    assert clients.returned == 1
    assert clients.problems == []


def test_an_honest_request_takes_the_time_until_its_acknowledgement(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not acknowledged raises an error."""
    sluice, _stub = behind
    assert 0 < ask(sluice.port, produce_frame("t", 2000)) < slow.SECONDS
    monkeypatch.setattr(slow, "error_of", lambda _: 3)
    with pytest.raises(ConnectionError, match="error 3"):
        ask(sluice.port, produce_frame("t", 2000))
