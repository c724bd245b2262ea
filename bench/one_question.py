"""The client and the broker of `bench.requests`: one question at a time, and its answer. Neither reads what it gets."""

import selectors
import socket
from dataclasses import dataclass
from threading import Thread
from typing import Final

from bench.harness import BenchError
from bench.harness.ports import LOOPBACK
from bench.replay.frames import Frames

TIMEOUT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its reply. `connects`: over a connection of its own."""

    name: str
    frames: Frames
    connects: bool = False


class Broker(Thread):
    """Sends the reply of `frames` for as many bytes as their request has. It reads none of them."""

    def __init__(self, frames: Frames) -> None:
        super().__init__(name="broker")
        self.frames = frames
        self._listening = socket.create_server((LOOPBACK, 0), backlog=1024)
        self.port: int = self._listening.getsockname()[1]

    def run(self) -> None:
        """Serve all connections until `close`."""
        came: dict[socket.socket, int] = {}
        scratch = bytearray(1 << 20)
        with selectors.DefaultSelector() as watched, self._listening as listening:
            watched.register(listening, selectors.EVENT_READ)
            while True:
                for key, _ in watched.select():
                    asker = key.data
                    if asker is None:
                        try:
                            asker, _ = listening.accept()
                        except OSError:  # it is closed
                            for each in came:
                                each.close()
                            return
                        asker.settimeout(TIMEOUT_SECONDS)
                        asker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        came[asker] = 0
                        watched.register(asker, selectors.EVENT_READ, asker)
                    elif not self._take(asker, came, scratch):
                        watched.unregister(asker)
                        del came[asker]
                        asker.close()

    def _take(self, asker: socket.socket, came: dict[socket.socket, int], into: bytearray) -> bool:
        """Receive what a proxy has sent, and answer a request that is whole; False: it has closed."""
        try:
            received = asker.recv_into(into)
            came[asker] += received
            if came[asker] == len(self.frames.request):
                came[asker] = 0
                asker.sendall(self.frames.reply)
        except ConnectionError:
            return False
        return received > 0

    def close(self) -> None:
        """Close the port and all connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self.join()


class Client:
    """Asks the question of a case, over one connection or over a new one each time."""

    def __init__(self, case: Case, port: int) -> None:
        self._case = case
        self._port = port
        self._scratch = memoryview(bytearray(1 << 20))
        self._open = None if case.connects else self._connect()

    def ask(self) -> int:
        """Ask once; return the bytes of the reply. Raises BenchError if the proxy closes the connection."""
        if self._open is not None:
            return self._ask(self._open)
        with self._connect() as connected:
            return self._ask(connected)

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    def _connect(self) -> socket.socket:
        connected = socket.create_connection((LOOPBACK, self._port), TIMEOUT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _ask(self, connected: socket.socket) -> int:
        connected.sendall(self._case.frames.request)
        here, whole = 0, 4
        while here < whole:
            received = connected.recv_into(self._scratch[here:])
            if not received:
                raise BenchError(f"{self._case.name}: the connection was closed")
            here += received
            if here >= 4:
                whole = 4 + int.from_bytes(self._scratch[:4], "big")
        return here
