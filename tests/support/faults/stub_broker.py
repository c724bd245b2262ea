"""A small broker: enough of Kafka to stand behind Sluice while a test attacks it.

It runs in a thread, or (`python -m tests.support.faults.stub_broker`, see `module_process`) in a process of its own,
for a test whose process is busy.

Rules:
- It answers in order, on each connection separately. A Heartbeat's reply is the request's own body, so that a client
  can verify that it is its own; an unknown request is answered with the broker's address, which no client may see.
- `answer` takes a request (whole, or its first 64 KiB) and gives the bytes to send, None for silence, or CLOSE.
- `burst` replies are gathered on a connection before they are sent, or fewer when nothing comes for a moment.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Self

from tests.support.messages import frames as f

Answer = Callable[[bytes], bytes | None]

ADDRESS: Final = "127.0.20.1"
NODE: Final = 1
CLOSE: Final = b""
_KEPT_BYTES: Final = 64 << 10
_READ_BYTES: Final = 64 << 10
_MOMENT_SECONDS: Final = 0.005
_FIND_COORDINATOR: Final = 10


class StubBroker:
    """Listens from construction, serves from entering to leaving. `seen` counts (api key, version)."""

    def __init__(self, answer: Answer | None = None, *, burst: int = 1) -> None:
        self._listener = socket.create_server((ADDRESS, 0), backlog=4096)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.seen: Counter[tuple[int, int]] = Counter()
        self.replied = 0
        self.sent_bytes = 0
        self.connected = 0
        self.open = 0
        self._answer = answer or self.usual
        self._burst = burst
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._stop, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._gathering: set[_Connection] = set()
        self._scratch = bytearray(_READ_BYTES)
        self._thread = threading.Thread(target=self._run, name="stub broker", daemon=True)

    @property
    def server(self) -> str:
        """HOST:PORT."""
        return f"{ADDRESS}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.send(b"x")
        self._thread.join(10)
        assert not self._thread.is_alive(), "the stub broker does not end"
        self._stop.close()

    def usual(self, request: bytes) -> bytes | None:
        """Return the answer unless a test defines another."""
        key, version, ident = struct.unpack_from(">hhi", request, 4)
        if key == f.HEARTBEAT:
            return f.reply(ident, body_of(request))
        if key == f.METADATA and version == 1:
            return f.metadata_reply(ident, [(NODE, ADDRESS, self.port)])
        if key == _FIND_COORDINATOR:
            found = struct.pack(">hi", 0, NODE) + f.string(ADDRESS) + struct.pack(">i", self.port)
            return f.reply(ident, found)
        if key == f.API_VERSIONS:
            ranges = b"".join(struct.pack(">hhh", each, 0, 30) for each in range(101))
            return f.reply(ident, struct.pack(">hi", 0, 101) + ranges)
        if key == f.PRODUCE:
            return f.produce_reply(ident)
        return f.reply(ident, ADDRESS.encode() * 4)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            ready = self._selector.select(_MOMENT_SECONDS if self._gathering else None)
            for key, events in ready:
                if key.fileobj is self._stopped:
                    self._end()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif events & selectors.EVENT_READ:
                    self._read(key.data)
                elif events & selectors.EVENT_WRITE:
                    self._send(key.data)
            if not ready:
                for connection in tuple(self._gathering):
                    self._send(connection)

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(accepted, selectors.EVENT_READ, _Connection(accepted))
        self.connected += 1
        self.open += 1

    def _read(self, connection: _Connection) -> None:
        try:
            received = connection.socket.recv_into(self._scratch)
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if not received:
            self._close(connection)
            return
        connection.received += memoryview(self._scratch)[:received]
        for request in connection.requests():
            key, version = struct.unpack_from(">hh", request, 4)
            self.seen[key, version] += 1
            reply = self._answer(request)
            if reply == CLOSE:
                self._close(connection)
                return
            if reply is not None:
                connection.replies.append(reply)
        if connection.replies:
            self._gathering.add(connection)
            if len(connection.replies) >= self._burst:
                self._send(connection)

    def _send(self, connection: _Connection) -> None:
        self._gathering.discard(connection)
        self.replied += len(connection.replies)
        connection.unsent += b"".join(connection.replies)
        connection.replies.clear()
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        self.sent_bytes += sent
        del connection.unsent[:sent]
        # A stream that is not drained is not read from either: two full pipes would be a lock.
        events = selectors.EVENT_WRITE if connection.unsent else selectors.EVENT_READ
        self._selector.modify(connection.socket, events, connection)

    def _close(self, connection: _Connection) -> None:
        self._gathering.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self.open -= 1

    def _end(self) -> None:
        for key in tuple(self._selector.get_map().values()):
            with suppress(OSError):
                key.fileobj.close()
        self._selector.close()


class _Connection:
    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.received = bytearray()
        self.replies: list[bytes] = []
        self.unsent = bytearray()
        self._head = b""
        self._left = 0  # of a request too large to keep whole

    def requests(self) -> Iterator[bytes]:
        """Each request that has ended."""
        data = self.received
        while True:
            if self._left:
                taken = min(self._left, len(data))
                del data[:taken]
                self._left -= taken
                if self._left:
                    return
                yield self._head
            if len(data) < 4:
                return
            size = 4 + struct.unpack_from(">i", data)[0]
            if len(data) >= size:
                whole = bytes(data[:size])
                del data[:size]
                yield whole
            elif len(data) >= _KEPT_BYTES:
                self._head = bytes(data[:_KEPT_BYTES])
                del data[:_KEPT_BYTES]
                self._left = size - _KEPT_BYTES
            else:
                return


def body_of(request: bytes) -> bytes:
    """Return the bytes after a request's classic header (v1)."""
    length = struct.unpack_from(">h", request, 12)[0]
    return request[14 + max(length, 0) :]


if __name__ == "__main__":
    with StubBroker() as broker:
        print(broker.server, flush=True)  # noqa: T201 - this is how it is found
        sys.stdin.read()  # until the process that started it closes the pipe
