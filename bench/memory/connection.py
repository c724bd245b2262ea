"""One connection of a client of our own: a frame out, a reply in, nothing else in between.

Rules: it never blocks after it was opened; whoever polls it asks `wanted` for what. A frame is written from memory
that all connections share. What the far side does to it is a value (`Lost`), not an exception.
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
    """The far side has ended the connection; `how` says in what way."""

    how: str


@dataclass(slots=True)
class Connection:
    """To 127.0.0.1:`port`, from the loopback address `source`; `window_bytes` is its receive buffer, 0 the usual."""

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
        # Thousands come and go from the same address: the port may be shared with other destinations.
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
        """Of its socket; -1 when it is closed."""
        return self.socket.fileno()

    def ask(self, frame: bytes | memoryview, now_s: float) -> None:
        """Begin a request; nothing is written yet."""
        self._frame = memoryview(frame)
        self.sent_bytes = 0
        self.began_s = now_s
        self._reply.clear()

    @property
    def unsent_bytes(self) -> int:
        """Of the request under way."""
        return len(self._frame) - self.sent_bytes

    @property
    def wanted(self) -> int:
        """What to poll for: to write while anything is unsent, and always to read."""
        return select.EPOLLIN | (select.EPOLLOUT if self.unsent_bytes else 0)

    def write(self, most_bytes: int | None = None) -> Lost | None:
        """As much as the kernel takes, `most_bytes` at most."""
        end = len(self._frame) if most_bytes is None else self.sent_bytes + most_bytes
        try:
            self.sent_bytes += self.socket.send(self._frame[self.sent_bytes : end])
        except BlockingIOError:
            pass
        except OSError as error:
            return Lost(type(error).__name__)
        return None

    def read(self) -> bytes | Lost | None:
        """The whole reply without its length; None while it is not all there."""
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
        """Send and wait for the reply, at most `PATIENCE_SECONDS`.

        Raises:
            ConnectionError: none came.
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
        """End it; with `reset` by RST, which throws away what is under way."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()
