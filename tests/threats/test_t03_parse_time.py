"""T3: bytes that are expensive to parse, to keep the event loop busy: they delay no client but their sender.

The honest client's wait is counted in the proxy's own CPU time (see `tests.support.faults.honest`), so that a busy
machine does not fail these tests, and a quick one does not hide what they look for.
"""

import socket
import threading
from contextlib import suppress
from typing import Self

import psutil
import pytest

from tests.support.faults.honest import Crowd, receive_frames
from tests.support.messages import frames as f
from tests.support.messages.costly_frames import (
    LARGE_BYTES,
    delete_topics,
    flood_of_tags,
    metadata_of_many,
    produce_of_many,
    produce_of_tags,
    too_many_tags,
)
from tests.support.processes.measured import tell
from tests.support.processes.sluice_process import SluiceProcess

ATTACK_SECONDS = 1.0
WORST_SECONDS = 0.25
GROWTH_BYTES = 96 << 20
"""Of one attacker with frames of 16 MiB that have to be kept whole."""
FORBIDDEN = "[{use: limits, config: {forbidden_apis: [DeleteTopics]}}]"


def begin(start, upstream: str) -> SluiceProcess:
    """Start a Sluice that refuses DeleteTopics and has done so once, so that the modules for it are loaded."""
    sluice = start(upstream, variables={"SLUICE_POLICIES": FORBIDDEN})
    with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as client:
        client.sendall(delete_topics(1))
        assert len(receive_frames(client, 1)) == 1
    return sluice


class Attack:
    """Sends the same bytes again and again while it is entered, and reconnects after each disconnect."""

    def __init__(self, port: int, data: bytes, attackers: int = 1) -> None:
        self.sent_bytes = 0
        self._port = port
        self._data = data
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(attackers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive(), "an attacker hangs"

    def last(self, seconds: float) -> None:
        """Attack for so many seconds."""
        self._ending.wait(seconds)

    def _run(self) -> None:
        while not self._ending.is_set():
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), timeout=60) as client,
            ):
                reader = threading.Thread(target=self._read, args=(client,), daemon=True)
                reader.start()
                view = memoryview(self._data)
                at = 0
                while not self._ending.is_set():
                    sent = client.send(view[at : at + (1 << 20)])
                    at = (at + sent) % len(view)
                    self.sent_bytes += sent
                client.shutdown(socket.SHUT_RDWR)
            reader.join(240)

    @staticmethod
    def _read(client: socket.socket) -> None:
        """Read the replies, because unread replies would stop the attack by backpressure."""
        with suppress(OSError):
            while client.recv(1 << 20):
                pass


LARGE = {
    "forbidden": lambda: delete_topics(LARGE_BYTES // 2),
    "metadata": lambda: metadata_of_many(1),
    "flexible metadata": lambda: metadata_of_many(9),
    "produce": produce_of_many,
    "produce of tags": produce_of_tags,
    "bad tags": too_many_tags,
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_frames_of_tiny_elements_delay_no_other_client(start, far, kind: str) -> None:
    """An honest client's longest wait stays short, memory stays bounded, and the process lives."""
    sluice = begin(start, far)
    data = LARGE[kind]()
    process = psutil.Process(sluice.pid)
    before = process.memory_info().rss
    with Crowd(sluice.port, 1, pid=sluice.pid) as crowd, Attack(sluice.port, data) as attack:
        attack.last(ATTACK_SECONDS)
        growth = process.memory_info().rss - before
    tell("T3", f"{kind}: {attack.sent_bytes >> 20} MiB sent, an honest request waited for "
         f"{crowd.worst_cpu_s * 1000:.0f} ms of CPU at most")  # fmt: skip
    assert attack.sent_bytes > 0
    assert crowd.worst_cpu_s < WORST_SECONDS
    assert growth < GROWTH_BYTES


SMALL = {
    "tags": flood_of_tags,
    "produce of tags": lambda: b"".join(produce_of_tags(150) for _ in range(20)),
    "refused": lambda: b"".join(delete_topics(0, n) for n in range(10_000)),
    "refused, with many items": lambda: b"".join(delete_topics(999, n) for n in range(100)),
    "too new": lambda: b"".join(
        f.request(f.API_VERSIONS, 99, n, client_id=None) for n in range(20_000)
    ),
}


@pytest.mark.parametrize("kind", SMALL)
def test_many_small_frames_delay_no_other_client(start, far, kind: str) -> None:
    """Two attackers send expensive small requests as fast as they can; an honest client's longest wait stays short."""
    sluice = begin(start, far)
    data = SMALL[kind]()
    with Crowd(sluice.port, 1, pid=sluice.pid) as crowd, Attack(sluice.port, data, 2) as attack:
        attack.last(ATTACK_SECONDS)
    tell("T3", f"{kind}: {attack.sent_bytes >> 20} MiB sent, an honest request waited for "
         f"{crowd.worst_cpu_s * 1000:.0f} ms of CPU at most")  # fmt: skip
    assert attack.sent_bytes > 0
    assert crowd.worst_cpu_s < WORST_SECONDS
