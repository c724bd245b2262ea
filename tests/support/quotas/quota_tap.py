"""A relay that parses: the requests of each client, their replies, and the throttle time in each reply.

It stands between two parties that speak Kafka, one connection for one, and sends on every byte unchanged. Bodies are
parsed by the codec library, not by Sluice's own table of offsets. Clients are told apart by their client id.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.primitives import skip_tags

_CHUNK: Final = 65_536
_API_VERSIONS: Final = 18
_UNSUPPORTED: Final = struct.pack(">h", 35)
_SASL: Final = frozenset({17, 36})


@dataclass(slots=True)
class Exchange:
    """One request; `answered` is None until its reply has come. Times by `time.monotonic`."""

    api_key: int
    api_version: int
    correlation_id: int
    asked: float
    answered: float | None = None
    throttle_ms: int | None = None
    """None if the reply has no such field."""
    error_code: int | None = None
    """The reply's own error code, if it has one at its top."""


@dataclass(slots=True)
class Talk:
    """One connection."""

    began: float
    client_id: str = ""
    ended: float | None = None
    exchanges: list[Exchange] = field(default_factory=list)


class Tap:
    """Relays `listen[i]` to `targets[i]`, each an (address, port); a context manager. Read `talks` after it."""

    def __init__(self, listen: list[tuple[str, int]], targets: list[tuple[str, int]]) -> None:
        self.talks: list[Talk] = []
        self.problems: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._targets = targets
        self._listeners = [socket.create_server(address, backlog=128) for address in listen]
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="tap", daemon=True)

    def __enter__(self) -> Self:
        for listener, target in zip(self._listeners, self._targets, strict=True):
            self._selector.register(listener, selectors.EVENT_READ, target)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._thread.join()
        assert not self.problems, self.problems
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def talks_of(self, client_id: str) -> list[Talk]:
        """Return the connections on which this client sent requests."""
        return [talk for talk in self.talks if talk.client_id == client_id]

    def _run(self) -> None:
        while not self._ending:
            for key, _ in self._selector.select(timeout=0.05):
                if isinstance(key.data, _Way):
                    self._pump(key.data)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._accept(key.fileobj, key.data)

    def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(target, 60)
        except OSError:
            client.close()
            return
        talk = Talk(time.monotonic())
        self.talks.append(talk)
        for source, sink, kind in ((client, server, _Requests), (server, client, _Replies)):
            source.settimeout(60)  # a blocking send, but never for ever
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(source, selectors.EVENT_READ, kind(source, sink, talk))

    def _pump(self, way: _Way) -> None:
        try:
            data = way.source.recv(_CHUNK)
            if data:
                way.sink.sendall(data)
        except OSError:
            data = b""
        if data:
            try:
                way.read(data)
            except (ValueError, StopIteration, struct.error, AssertionError) as error:
                self.problems.append(f"{way.talk.client_id}: {error!r}")
            return
        way.talk.ended = way.talk.ended or time.monotonic()
        for one in (way.source, way.sink):
            if one.fileno() >= 0:
                self._selector.unregister(one)
                one.close()


@dataclass(slots=True)
class _Way:
    """One direction of a connection."""

    source: socket.socket
    sink: socket.socket
    talk: Talk
    pending: bytearray = field(default_factory=bytearray)

    def read(self, data: bytes) -> None:
        """Cut the stream into frames."""
        self.pending += data
        while len(self.pending) >= 4:
            size = 4 + struct.unpack_from(">i", self.pending)[0]
            if len(self.pending) < size:
                return
            frame = bytes(self.pending[4:size])
            del self.pending[:size]
            self.frame(frame)

    def frame(self, payload: bytes) -> None:
        """One whole frame, without its length."""
        raise NotImplementedError


class _Requests(_Way):
    def frame(self, payload: bytes) -> None:
        api_key, version, correlation_id, length = struct.unpack_from(">hhih", payload)
        if length > 0 and api_key not in _SASL and not self.talk.client_id:
            self.talk.client_id = payload[10 : 10 + length].decode()
        if api_key == 0 and _acks(payload) == 0:
            return  # no reply will come
        self.talk.exchanges.append(Exchange(api_key, version, correlation_id, time.monotonic()))


class _Replies(_Way):
    def frame(self, payload: bytes) -> None:
        # Replies come in order: the oldest unanswered request is the one.
        exchange = next(each for each in self.talk.exchanges if each.answered is None)
        (correlation_id,) = struct.unpack_from(">i", payload)
        assert correlation_id == exchange.correlation_id, "a reply out of order"
        exchange.answered = time.monotonic()
        if exchange.api_key in _SASL:
            return
        api = api_of(exchange.api_key, exchange.api_version)
        if exchange.api_key == _API_VERSIONS and payload[4:6] == _UNSUPPORTED:
            return  # answered as v0, for any version asked
        start = skip_tags(payload, 4, len(payload)) if api.response_header_version else 4
        body = codec.decode_response(api, payload[start:])
        throttle = getattr(body, "throttle_time", None)
        if throttle is not None:
            exchange.throttle_ms = round(throttle.total_seconds() * 1000)
        code = getattr(body, "error_code", None)
        exchange.error_code = None if code is None else int(code)


def _acks(payload: bytes) -> int:
    version, _, length = struct.unpack_from(">hih", payload, 2)
    at = 10 + max(0, length)
    if version >= 9:
        at = skip_tags(payload, at, len(payload))
        size = payload[at]  # a transactional id shorter than 127 bytes, or none
        at += max(1, size)
    elif version >= 3:
        at += 2 + max(0, struct.unpack_from(">h", payload, at)[0])
    acks: int = struct.unpack_from(">h", payload, at)[0]
    return acks


def answered(talks: Iterable[Talk], start: float, stop: float) -> list[Exchange]:
    """Return every exchange, except those of SASL, that was answered between these times."""
    return [
        exchange
        for talk in talks
        for exchange in talk.exchanges
        if exchange.api_key not in _SASL
        and exchange.answered is not None
        and start <= exchange.answered <= stop
    ]
