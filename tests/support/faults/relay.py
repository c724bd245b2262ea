"""A TCP relay in a thread, for looking at bytes on their way and for breaking the way.

It joins `listen` ports of one address to ports of another, keeps every byte that went back to a client, counts
connections by the port they came to, and can cut them with a reset. It knows nothing of Kafka.
"""

import selectors
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close() sends RST
_CHUNK = 256 * 1024


@dataclass(slots=True)
class Relay:
    """Relays `listen[i]` to `targets[i]`, each an (address, port); a context manager.

    With `keeps_requests`, `requests` has every byte that clients sent.
    """

    listen: list[tuple[str, int]]
    targets: list[tuple[str, int]]
    received: list[bytearray] = field(default_factory=list)
    accepted: Counter[int] = field(default_factory=Counter)
    bytes_from_clients: int = 0
    keeps_requests: bool = False
    requests: bytearray = field(default_factory=bytearray)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _listeners: dict[socket.socket, tuple[str, int]] = field(default_factory=dict)
    _pairs: dict[socket.socket, socket.socket] = field(default_factory=dict)
    _records: dict[socket.socket, bytearray] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    _ending: bool = False
    _cutting: bool = False
    _cut_done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Listens and starts the thread."""
        for address, target in zip(self.listen, self.targets, strict=True):
            listener = socket.create_server(address, backlog=128)
            self._selector.register(listener, selectors.EVENT_READ)
            self._listeners[listener] = target
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread and closes every socket."""
        self._ending = True
        assert self._thread is not None, "the relay was not entered"
        self._thread.join()
        for sock in (*self._listeners, *self._pairs):
            sock.close()
        self._selector.close()

    def bytes_to_clients(self) -> bytes:
        """All that clients received, connection after connection."""
        return b"\n".join(map(bytes, self.received))

    def cut(self) -> None:
        """Resets every connection in both directions; new ones are taken."""
        self._cut_done.clear()
        self._cutting = True
        assert self._cut_done.wait(120), "the relay's thread does not answer"

    def _run(self) -> None:
        while not self._ending:
            for key, _ in self._selector.select(timeout=0.05):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock in self._listeners:
                    self._accept(sock, self._listeners[sock])
                elif sock in self._pairs:
                    self._pump(sock)
            if self._cutting:
                self._cutting = False
                for sock in list(self._pairs):
                    self._close(sock, reset=True)
                self._cut_done.set()

    def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        client, _ = listener.accept()
        self.accepted[listener.getsockname()[1]] += 1
        try:
            server = socket.create_connection(target, timeout=60)
        except OSError:
            client.close()
            return
        record = bytearray()
        self.received.append(record)
        self._records[server] = record
        for one, other in ((client, server), (server, client)):
            one.settimeout(60)  # a blocking send, but never for ever
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pump(self, source: socket.socket) -> None:
        try:
            data = source.recv(_CHUNK)
            if data:
                self._pairs[source].sendall(data)
                if (record := self._records.get(source)) is not None:
                    record += data
                else:
                    self.bytes_from_clients += len(data)
                    if self.keeps_requests:
                        self.requests += data
        except OSError:
            data = b""
        if not data:
            self._close(source)

    def _close(self, sock: socket.socket, *, reset: bool = False) -> None:
        other = self._pairs.get(sock)
        for one in (sock, other):
            if one is not None and self._pairs.pop(one, None) is not None:
                self._records.pop(one, None)
                self._selector.unregister(one)
                if reset:
                    with suppress(OSError):
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.close()
