"""A Sluice that writes a usage log is killed while clients are busy, and started again."""

import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.telemetry.usage_log.segment import parse_name
from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.telemetry.usage_log import shown

LATE_S = 0.3
"""For the loop's turn, the writer's, and a busy machine, after a second is over."""
LIFE_S = (1.45, 2.5)
"""A shorter one might end before any second was over and told of in time."""
FAMILIES = ("entity", "api", "instance")


class Busy:
    """A client that sends a request as soon as the last is answered, and records the time of each answer."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.sent = 0
        self.answered_s: list[float] = []
        self.more = threading.Event()
        self._port = port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as sock:
            try:
                while True:
                    request = f.heartbeat(self.sent + 1, self.name)
                    self.sent += 1
                    sock.sendall(request)
                    size = int.from_bytes(receive(sock, 4), "big")
                    receive(sock, size)
                    self.answered_s.append(time.time())
                    self.more.set()
                    self.more.clear()
            except (OSError, AssertionError):
                return  # killed


@pytest.fixture
def broker() -> Iterator[StubBroker]:
    """A stub broker that outlives every Sluice."""
    with StubBroker() as stub:
        yield stub


@pytest.fixture
def sluice(broker: StubBroker, tmp_path: Path) -> Iterator[SluiceProcess]:
    """Sluice before the stub broker, with rows of three families."""
    variables = {
        "SLUICE_USAGE_LOG_DIRECTORY": str(tmp_path / "usage-log"),
        "SLUICE_USAGE_LOG_FAMILIES": ",".join(FAMILIES),
        "SLUICE_USAGE_LOG_INSTANCE": "pod-7",
        "SLUICE_USAGE_LOG_ROTATE_MS": "1500",
    }
    process = SluiceProcess(broker.server, tmp_path / "sluice", variables=variables)
    yield process
    process.stop()


@pytest.mark.slow
def test_a_kill_costs_the_last_second_at_most(sluice: SluiceProcess, tmp_path: Path) -> None:
    """Killed three times at random moments: every request answered before the second of its death is
    in the rows of both families, none is counted twice, no file is torn, and no `seq` is missing.
    """
    directory = tmp_path / "usage-log"
    lives = []
    for life in range(3):
        sluice.start()
        clients = [Busy(sluice.port, f"life-{life}-{place}") for place in range(3)]
        time.sleep(random.uniform(*LIFE_S))
        killed_s = time.time()
        sluice.kill()
        for client in clients:
            client.join()
        lives.append((killed_s, clients))
    sluice.start()  # and adopts
    hidden = [parse_name(path.name) for path in directory.glob("*/.*")]
    assert len({name.boot for name in hidden if name is not None}) <= 1  # those of the living
    sluice.stop()

    rows = {family: shown(directory, family) for family in FAMILIES}
    for family in FAMILIES:
        for boot in {row["boot"] for row in rows[family]}:
            seqs = [row["seq"] for row in rows[family] if row["boot"] == boot]
            assert seqs == list(range(1, len(seqs) + 1)), (family, boot)
    for killed_s, clients in lives:
        last_s = int(killed_s - LATE_S)  # the seconds before this one were over in time
        for client in clients:
            entity = [row for row in rows["entity"] if row["client_id"] == client.name]
            api = [row for row in rows["api"] if row["client_id"] == client.name]
            answered = sum(1 for at_s in client.answered_s if at_s < last_s - 0.01)
            assert answered > 0
            assert answered <= sum(row["requests"] for row in entity) <= client.sent
            assert answered <= sum(row["replied"] for row in api) <= client.sent
            assert len({row["ts_ms"] for row in entity}) == len(entity)
    assert not [row for row in rows["entity"] if row["client_id"].count("-") != 2]


def test_a_drained_proxy_has_written_every_request(sluice: SluiceProcess, tmp_path: Path) -> None:
    """After SIGTERM in the middle of a second the rows add up
    to the last request and byte that the clients counted.
    """
    sluice.start()
    clients = [Busy(sluice.port, f"c{place}") for place in range(3)]
    time.sleep(1.3)
    sluice.stop()
    for client in clients:
        client.join()

    rows = shown(tmp_path / "usage-log", "entity")
    for client in clients:
        mine = [row for row in rows if row["client_id"] == client.name]
        answered = len(client.answered_s)
        frames = [len(f.heartbeat(number + 1, client.name)) for number in range(client.sent)]
        counted = sum(row["requests"] for row in mine)
        assert answered <= counted <= client.sent
        assert sum(row["request_bytes"] for row in mine) == sum(frames[:counted])
        api = [
            row for row in shown(tmp_path / "usage-log", "api") if row["client_id"] == client.name
        ]
        assert sum(row["requests"] for row in api) == counted
