"""Sockets that send their bytes one at a time, and come back at once when they are disconnected."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Final, Self

PAUSE_S: Final = 0.4
"""Between two bytes of one socket. Sluice once gave a client that sends nothing up after a second."""


class Dripping:
    """`count` sockets to a port of 127.0.0.1, in a thread. Each sends `first` at once, then `rest` byte by byte.

    `sent` counts the bytes of all, `returned` how often one was disconnected and has come back.
    """

    def __init__(self, port: int, count: int, first: bytes, rest: bytes) -> None:
        self._port = port
        self._count = count
        self._first = first
        self._rest = rest
        self.sent = self.returned = 0
        self._at: dict[socket.socket, int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._connect()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for each in self._at:
            each.close()

    def _connect(self) -> None:
        made = socket.create_connection(("127.0.0.1", self._port), 60)
        made.sendall(self._first)
        made.setblocking(False)
        self._at[made] = 0

    def _run(self) -> None:
        while not self._ending.is_set():
            began_s = time.monotonic()
            for each, at in tuple(self._at.items()):
                try:
                    if at < len(self._rest):
                        each.send(self._rest[at : at + 1])
                        self._at[each] += 1
                        self.sent += 1
                    while each.recv(1 << 16):
                        pass
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                each.close()
                del self._at[each]
                self.returned += 1
                with suppress(OSError):
                    self._connect()
            self._ending.wait(max(0.0, PAUSE_S - (time.monotonic() - began_s)))
