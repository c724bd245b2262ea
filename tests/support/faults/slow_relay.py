"""A relay that makes a broker slow: each reply is delayed; and it counts the requests in flight.

Frames are relayed whole. Counted are the requests of one API, over all connections together, from their arrival here
until their reply leaves, so a client never has fewer requests in flight than are counted.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Self

_CHUNK = 256 * 1024


@dataclass(slots=True, eq=False)
class _Side:
    """One socket of a pair; `asked` are the API keys of the requests that went this pair's way."""

    sock: socket.socket
    is_client: bool
    asked: deque[int]
    other: _Side | None = None
    data: bytearray = field(default_factory=bytearray)


class SlowRelay:
    """Relays a free port of `address` to `target` (address, port); a context manager."""

    def __init__(
        self, target: tuple[str, int], *, api_key: int, delay_s: float, address: str = "127.0.0.1"
    ) -> None:
        self.seen = 0
        """The number of requests of that API."""
        self.under_way = 0
        self.most_under_way = 0
        self._target = target
        self._api_key = api_key
        self._delay_s = delay_s
        self._listener = socket.create_server((address, 0), backlog=256)
        self.bootstrap = f"{address}:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._due: deque[tuple[float, _Side, bytes, bool]] = deque()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="slow relay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._thread.join(10)
        assert not self._thread.is_alive(), "the relay's thread does not end"
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ending:
            wait_s = min(self._due[0][0] - time.monotonic(), 0.05) if self._due else 0.05
            for key, _ in self._selector.select(max(wait_s, 0)):
                if key.data is None:
                    self._accept()
                else:
                    self._read(key.data)
            while self._due and self._due[0][0] <= time.monotonic():
                _, side, frame, counted = self._due.popleft()
                self.under_way -= counted
                self._send(side, frame)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._target, timeout=60)
        asked: deque[int] = deque()
        one, other = _Side(client, True, asked), _Side(server, False, asked)
        one.other, other.other = other, one
        for each in (one, other):
            each.sock.settimeout(60)  # a blocking send, but never for ever
            each.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(each.sock, selectors.EVENT_READ, each)

    def _read(self, side: _Side) -> None:
        try:
            data = side.sock.recv(_CHUNK)
        except OSError:
            data = b""
        assert side.other is not None
        if not data:
            self._close(side)
            self._close(side.other)
            return
        side.data += data
        while len(side.data) >= 6:
            end = 4 + struct.unpack_from(">i", side.data)[0]
            if len(side.data) < end:
                break
            frame = bytes(side.data[:end])
            del side.data[:end]
            self._pass(side, frame)

    def _pass(self, side: _Side, frame: bytes) -> None:
        assert side.other is not None
        if side.is_client:
            (key,) = struct.unpack_from(">h", frame, 4)
            side.asked.append(key)
            if key == self._api_key:
                self.seen += 1
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
            self._send(side.other, frame)
        else:
            counted = side.asked.popleft() == self._api_key
            self._due.append((time.monotonic() + self._delay_s, side.other, frame, counted))

    def _send(self, side: _Side, frame: bytes) -> None:
        try:
            side.sock.sendall(frame)
        except OSError:
            self._close(side)

    def _close(self, side: _Side) -> None:
        if side.sock.fileno() >= 0:
            self._selector.unregister(side.sock)
            side.sock.close()
