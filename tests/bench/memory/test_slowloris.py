"""Case c: its attack, and the measure of the pool from outside."""

import socket
import threading

import pytest

from bench.memory import slowloris
from bench.memory.frames import MIB, produce_frame
from bench.memory.slowloris import HEAD_BYTES, Slowloris, free_share
from tests.bench.memory.conftest import Behind
from tests.support.shell.sockets import receive

FRAME = produce_frame("t", MIB)


def test_an_attack_counts_closed_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three are closed, one of them after its second byte; the third lasts to the end."""
    monkeypatch.setattr(slowloris, "DRIP_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far: list[socket.socket] = []

        def serve() -> None:
            for place in range(3):
                accepted, (host, _) = listening.accept()
                assert host == slowloris.HOSTILE
                far.append(accepted)
                receive(accepted, HEAD_BYTES)
                if place == 0:
                    accepted.close()
                if place == 1:
                    receive(accepted, 2)
                    accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        attack = Slowloris(listening.getsockname()[1], 3, FRAME)
        attack.begin()
        attack.run(0.8)
        thread.join(5)
        for each in far:
            each.close()
    lasted = sorted(attack.lasted_s())
    assert len(attack.closed) == 2
    assert lasted[0] < 0.2 <= lasted[1] < 0.8 <= lasted[2]


def test_a_pool_without_bound_is_not_taken_for_a_full_one(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request admitted beside one that takes the whole pool shows that the measure is invalid."""
    monkeypatch.setattr(slowloris, "POOL", 4 * MIB)
    sluice, _ = behind
    assert free_share(sluice.port, "t") == 0.0
