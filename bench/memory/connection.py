"""A non-blocking client connection with one request in flight.

Only opening it blocks; `wanted` is the event mask to poll for. All connections write their frames from the same
memory. The end of the connection by the peer is a value (`Lost`), not an exception.
"""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

PATIENCE_SECONDS: Final = 20.0
_READ_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Lost:
    """The peer has ended the connection; `how` is the error's name or `closed`."""

    how: str


@dataclass(slots=True)
class Connection:
    """A connection to 127.0.0.1:`port` from `source`; `window_bytes` is its receive buffer (0: default)."""

    port: int
    source: str = "127.0.0.1"
    window_bytes: int = 0
    sent_bytes: int = 0
    began_s: float = 0.0
    _frame: memoryview = field(default_factory=lambda: memoryview(b""))
    _reply: bytearray = field(default_factory=bytearray)
    socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Thousands of connections use the same address, so their ports are shared with other destinations.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.window_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.window_bytes)
        self.socket.settimeout(PATIENCE_SECONDS)
        try:
            self.socket.bind((self.source, 0))
            self.socket.connect(("127.0.0.1", self.port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor of its socket; -1 after `close`."""
        return self.socket.fileno()

    def ask(self, frame: bytes | memoryview, now_s: float) -> None:
        """Set the next request; `write` sends it."""
        self._frame = memoryview(frame)
        self.sent_bytes = 0
        self.began_s = now_s
        self._reply.clear()

    @property
    def unsent_bytes(self) -> int:
        """Return the unsent bytes of the current request."""
        return len(self._frame) - self.sent_bytes

    @property
    def wanted(self) -> int:
        """Return the event mask: always input, and output while bytes are unsent."""
        return select.EPOLLIN | (select.EPOLLOUT if self.unsent_bytes else 0)

    def write(self, max_bytes: int | None = None) -> Lost | None:
        """Send as much as the kernel accepts, at most `max_bytes`; return Lost if the peer has ended."""
        end = len(self._frame) if max_bytes is None else self.sent_bytes + max_bytes
        try:
            self.sent_bytes += self.socket.send(self._frame[self.sent_bytes : end])
        except BlockingIOError:
            pass
        except OSError as error:
            return Lost(type(error).__name__)
        return None

    def read(self) -> bytes | Lost | None:
        """Return the whole reply without its length; None while it is incomplete; Lost if the peer has ended."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            return Lost(type(error).__name__)
        if not data:
            return Lost("closed")
        self._reply += data
        if len(self._reply) < 4:
            return None
        end = 4 + struct.unpack_from(">i", self._reply)[0]
        return bytes(self._reply[4:end]) if len(self._reply) >= end else None

    def demand(self, frame: bytes) -> bytes:
        """Send a request and return its reply; wait at most `PATIENCE_SECONDS`.

        Raises:
            ConnectionError: no reply came, or the peer has ended.
        """
        self.ask(frame, 0.0)
        poll = select.poll()
        while True:
            poll.register(self.fileno(), self.wanted)
            if not poll.poll(PATIENCE_SECONDS * 1000):
                raise ConnectionError("no reply")
            if self.unsent_bytes and isinstance(lost := self.write(), Lost):
                raise ConnectionError(lost.how)
            found = self.read()
            if isinstance(found, Lost):
                raise ConnectionError(found.how)
            if found is not None:
                return found

    def close(self, *, reset: bool = False) -> None:
        """Close it; with `reset` by RST, which discards bytes in flight."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()
