"""Honest clients: they send Heartbeats with payloads of their own and accept exactly the right replies only.

`Honest` is one connection; `Crowd` runs several in threads while a test attacks, and reports their waits.
On a shared machine a wait has many causes, and only the proxy's own work is its fault. So a wait is also counted in
CPU seconds that the proxy spent in it: never more than its longest turn for another client. The kernel stamps the
reply's arrival; what the proxy may have spent after it, until this process runs again, is not counted.
"""

import itertools
import socket
import struct
import threading
import time
from typing import Final, Self

from tests.support.faults.stub_broker import body_of
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive

TIMEOUT_SECONDS: Final = 240
_SO_TIMESTAMPNS: Final = 35
"""Of Linux; Python has no name for it."""


class Honest:
    """One connection to Sluice at 127.0.0.1:`port`. `waits_s` are its waits for replies.

    `worst_cpu_s` is the most CPU time that process `pid` has certainly spent in such a wait.
    """

    def __init__(self, port: int, name: str = "honest", pid: int | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = name
        self.asked = 0
        self.waits_s: list[float] = []
        self.worst_cpu_s = 0.0
        self._cpu_clock = ~pid << 3 | 2 if pid else None  # as clock_getcpuclockid(3) makes it
        self._stamped: socket.socket | None = None
        """The same connection, also when `socket` is wrapped in TLS. It keeps it open, so leave by `close`."""
        if pid:
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._stamped = self.socket.dup()
            self._stamped.settimeout(TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._stamped is not None:
            self._stamped.close()
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
        began, began_s, busy_s = time.monotonic(), time.time(), self.cpu_s()
        self.socket.sendall(request)
        sent_s = time.time()
        arrived_s = self._arrival_s()
        data = receive(self.socket, len(expected))
        self.waits_s.append(time.monotonic() - began)
        # Sluice has one thread: outside of the wait it spent no more CPU time than passed there. Its clock is read
        # within those times, as this process may be held up between any two readings.
        spent_s = self.cpu_s() - busy_s
        outside_s = (sent_s - began_s) + (time.time() - arrived_s)
        self.worst_cpu_s = max(self.worst_cpu_s, spent_s - outside_s)
        assert data == expected, f"{self.name} got {data!r}, not {expected!r}"

    def cpu_s(self) -> float:
        """Return the CPU seconds that the watched process has spent so far; 0 if none is watched."""
        return 0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)

    def _arrival_s(self) -> float:
        """Wait for the reply; return the time at which the kernel received it, 0 if nothing is measured."""
        if self._stamped is None:
            return 0
        _, stamps, _, _ = self._stamped.recvmsg(1, 64, socket.MSG_PEEK)
        if not stamps:  # the end of the connection
            return time.time()
        seconds, nanoseconds = struct.unpack("=qq", stamps[0][2])
        return float(seconds + nanoseconds / 1e9)


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
            client.close()
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
