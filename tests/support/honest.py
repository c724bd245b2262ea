"""Honest clients: they send Heartbeats with payloads of their own and accept exactly the right replies only.

`Honest` is one connection; `Crowd` runs several in threads while a test attacks, and reports their waits.
On a shared machine a wait has many causes, and only the proxy's own work is its fault. So a wait is also counted in
CPU seconds that the proxy spent in it: never more than its longest turn for another client.
"""

import itertools
import socket
import struct
import threading
import time
from typing import Final, Self

import psutil

from tests.support import frames as f
from tests.support.sockets import receive
from tests.support.stub_broker import body_of

TIMEOUT_SECONDS: Final = 60


class Honest:
    """One connection to Sluice at 127.0.0.1:`port`. `waits_s` are its waits for replies.

    `worst_cpu_s` is the most CPU time that process `pid` spent in such a wait.
    """

    def __init__(self, port: int, name: str = "honest", pid: int | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = name
        self.asked = 0
        self.waits_s: list[float] = []
        self.worst_cpu_s = 0.0
        self._process = psutil.Process(pid) if pid else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def next_request(self) -> tuple[bytes, bytes]:
        """Return a request that no other client sends, and the only right reply."""
        self.asked += 1
        body = f.string(f"{self.name}-{self.asked}") + struct.pack(">i", 3) + f.string("member")
        request = f.request(f.HEARTBEAT, 0, self.asked, body, client_id=self.name)
        return request, f.reply(self.asked, body_of(request))

    def ask(self) -> None:
        """Send one request and compare its reply byte by byte."""
        request, expected = self.next_request()
        began, busy = time.monotonic(), self._cpu_s()
        self.socket.sendall(request)
        data = receive(self.socket, len(expected))
        waited_s = time.monotonic() - began
        self.waits_s.append(waited_s)
        self.worst_cpu_s = max(self.worst_cpu_s, min(waited_s, self._cpu_s() - busy))
        assert data == expected, f"{self.name} got {data!r}, not {expected!r}"

    def _cpu_s(self) -> float:
        if self._process is None:
            return 0
        times = self._process.cpu_times()
        return times.user + times.system


class Crowd:
    """Several honest clients, asking every few milliseconds from entering to leaving.

    Leaving raises AssertionError unless each got what it asked for, every time.
    """

    def __init__(
        self, port: int, count: int, *, pause_s: float = 0.002, pid: int | None = None
    ) -> None:
        self._clients = [Honest(port, f"honest{n}", pid) for n in range(count)]
        self._pause_s = pause_s
        self._ending = threading.Event()
        self._problems: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=each.name, daemon=True)
            for each in self._clients
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_SECONDS)
        for client in self._clients:
            client.socket.close()
        if kind is None:
            assert not self._problems, self._problems
            assert all(client.asked for client in self._clients)

    @property
    def waits_s(self) -> list[float]:
        """Return every wait of all clients, in no order."""
        return [wait for client in self._clients for wait in client.waits_s]

    @property
    def worst_cpu_s(self) -> float:
        """Return the most CPU seconds that the watched process spent while one of them waited."""
        return max(client.worst_cpu_s for client in self._clients)

    def _run(self, client: Honest) -> None:
        try:
            while not self._ending.wait(self._pause_s):
                client.ask()
        except (OSError, AssertionError) as problem:
            self._problems.append(f"{client.name} after {client.asked}: {problem!r}")


def receive_frames(sock: socket.socket, count: int) -> list[bytes]:
    """Return so many whole frames, or those that came before the end."""
    frames = []
    for _ in itertools.repeat(None, count):
        head = receive(sock, 4)
        if len(head) < 4:
            break
        frames.append(head + receive(sock, struct.unpack(">i", head)[0]))
    return frames
