"""The mixed load of the soak: small requests, bulk both ways, idle connections, and clients that behave badly.

The C load programs keep fixed rates. The others are threads with blocking sockets: throttled clients, readers that are
slower than the broker, and connections that come, ask something and end in different ways. Sluice closes the idle ones
after ten minutes.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Final

from bench.harness.processes import Program
from bench.in_process import PRODUCE
from bench.measure import FIRST_REQUEST, Bench
from bench.shapes import MIB, Shape

LOOPBACK: Final = "127.0.0.1"
PATIENCE_S: Final = 30
SHAPES: Final = (
    Shape("small", "100 B produced", 20, rate=300),
    Shape("kb-16", "16 KiB produced", 4, value_bytes=16 << 10, rate=20),
    Shape("produce", "1 MiB produced", 2, value_bytes=MIB, rate=3),
    Shape("fetch", "1 MiB fetched", 4, kind="fetch", value_bytes=MIB, rate=3),
    Shape("idle", "idle connections", 100, kind="idle"),
)
THROTTLED: Final = 4
THROTTLED_RATE: Final = 40
"""Requests per second of the client id `client`, whose clients send as fast as they get replies."""
SLOW_READERS: Final = 3
SLOW_READ_BYTES: Final = 16 << 10
SLOW_READ_S: Final = 0.05
CONNECT_S: Final = 0.1
"""The time between two connections that end soon."""
_LINGER_RESET: Final = struct.pack("ii", 1, 0)


def fetch_request(max_bytes: int) -> bytes:
    """Return a Fetch v12 for topic `bench`, as `bench/c/kafka.h` has it."""
    body = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    body += b"\x02\x06bench\x02" + struct.pack(">iiqiqi", 0, -1, 0, -1, -1, max_bytes)
    body += b"\x00\x00\x01\x01\x00"
    head = struct.pack(">hhi", 1, 12, 1) + struct.pack(">h", 5) + b"bench\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


FETCH: Final = fetch_request(MIB)


def read_reply(client: socket.socket, ending: threading.Event, pause_s: float = 0) -> int:
    """Read one reply, in pieces of SLOW_READ_BYTES if there is a pause after each; return its size.

    Raises:
        ConnectionError: the connection has ended.
    """
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionError("no reply")
    size: int = struct.unpack(">i", head)[0]
    left = size
    while left and not ending.is_set():
        piece = client.recv(min(left, SLOW_READ_BYTES))
        if not piece:
            raise ConnectionError("a part of a reply")
        left -= len(piece)
        if pause_s:
            ending.wait(pause_s)
    return size


class Clients:
    """The threads of one load; `requests` that were answered and `connections` that were made, so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ending = threading.Event()
        self.requests = 0
        self.connections = 0
        self.problems: list[str] = []
        jobs: list[Callable[[], None]] = [self._throttled] * THROTTLED
        jobs += [self._slow] * SLOW_READERS + [self._come_and_go]
        self._threads = [threading.Thread(target=self._guarded, args=(job,)) for job in jobs]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """End all threads."""
        self._ending.set()
        for each in self._threads:
            each.join(PATIENCE_S)

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:
            if not self._ending.is_set():
                self.problems.append(f"{job.__name__}: {error}")

    def _connect(self) -> socket.socket:
        self.connections += 1
        return socket.create_connection((LOOPBACK, self._port), PATIENCE_S)

    def _throttled(self) -> None:
        with self._connect() as client:
            while not self._ending.is_set():
                client.sendall(PRODUCE)
                read_reply(client, self._ending)
                self.requests += 1

    def _slow(self) -> None:
        with self._connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_READ_BYTES)
            while not self._ending.is_set():
                client.sendall(FETCH)
                read_reply(client, self._ending, SLOW_READ_S)
                self.requests += 1

    def _come_and_go(self) -> None:
        """End connections after a reply, by a reset, inside a request, before the reply, or with what is not Kafka."""
        while not self._ending.wait(CONNECT_S):
            way = self.connections % 5
            with self._connect() as client:
                if way == 4:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
                    with contextlib.suppress(ConnectionError):
                        client.recv(1)
                    continue
                client.sendall(FIRST_REQUEST)
                read_reply(client, self._ending)
                self.requests += 1
                if way == 1:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                elif way == 2:
                    client.sendall(FETCH[:20])
                elif way == 3:
                    client.sendall(FETCH)


@contextlib.contextmanager
def running_load(
    bench: Bench, port: int, seconds: float
) -> Iterator[tuple[Clients, list[Program]]]:
    """Load the port inside the block, by the programs for `seconds` at most."""
    with contextlib.ExitStack() as stack:
        programs = []
        for shape in SHAPES:
            program = bench.start_load(shape, port, seconds, 0.2)
            stack.callback(program.stop)
            program.line(60)
            if shape.kind != "idle":
                program.say("go\n")
            programs.append(program)
        clients = Clients(port)
        stack.callback(clients.close)
        yield clients, programs
