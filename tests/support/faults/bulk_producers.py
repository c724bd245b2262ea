"""Producers that send many large requests ahead, as fast as they are taken, polled together by the test's thread.

All send the same bytes, so that 200 of them cost a test no memory. What comes back is kept byte by byte.
"""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from tests.support.messages import frames as f

TOPIC: Final = "t"
CLIENT_ID: Final = "bulk"
TIMED_OUT: Final = 7
_NO_OFFSET: Final = -1
_WAIT_SECONDS: Final = 240
_LOOK_SECONDS: Final = 0.05
"""How long is sent and received before the condition is looked at again."""
_READ_BYTES: Final = 1 << 16


def produce(number: int, size_bytes: int, timeout_ms: int) -> bytes:
    """Return a Produce v3 with acks=all and this timeout."""
    whole = f.produce(number, size_bytes=size_bytes, topic=TOPIC, client_id=CLIENT_ID)
    return whole.replace(struct.pack(">hi", -1, 30_000), struct.pack(">hi", -1, timeout_ms), 1)


def timed_out(number: int) -> bytes:
    """Return the reply that Sluice makes in the broker's place."""
    body = struct.pack(">i", 1) + f.string(TOPIC) + struct.pack(">i", 1)
    body += struct.pack(">ihqq", 0, TIMED_OUT, _NO_OFFSET, _NO_OFFSET) + struct.pack(">i", 0)
    return f.reply(number, body)


class BulkProducer:
    """One connection. `left`: what is not sent yet; `received`: all bytes that came; `closed`: nothing more comes."""

    def __init__(self, port: int, data: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_WAIT_SECONDS)
        self.socket.setblocking(False)
        self.left = memoryview(data)
        self.received = b""
        self.closed = False

    @property
    def replies(self) -> list[bytes]:
        """Return the whole replies that came."""
        return f.whole_frames(self.received)

    def send(self) -> None:
        """Send what is taken now."""
        try:
            self.left = self.left[self.socket.send(self.left) :]
        except BlockingIOError:
            pass
        except OSError:
            self.left = self.left[:0]  # it is closed; what came before that is still to be read

    def receive(self) -> None:
        """Receive what is here."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.received += data
        self.closed = not data


class BulkProducers:
    """So many producers, each of which sends these requests; they are connected from entering to leaving."""

    def __init__(self, port: int, count: int, requests: Sequence[bytes]) -> None:
        data = b"".join(requests)
        self._selector = selectors.DefaultSelector()
        self.all = [BulkProducer(port, data) for _ in range(count)]
        for each in self.all:
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.register(each.socket, events, each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for each in self.all:
            each.socket.close()

    def have_received(self, size_bytes: int) -> bool:
        """Return whether each has received so many bytes, or is closed."""
        return all(each.closed or len(each.received) >= size_bytes for each in self.all)

    def run_until(self, condition: Callable[[], bool], what: str) -> None:
        """Send and receive until the condition holds; raises AssertionError if that takes too long."""
        give_up = time.monotonic() + _WAIT_SECONDS
        while not condition():
            assert time.monotonic() < give_up, f"waited in vain for {what}"
            look_s = time.monotonic() + _LOOK_SECONDS
            while (left_s := look_s - time.monotonic()) > 0:
                for key, events in self._selector.select(left_s):
                    self._serve(key.data, events)

    def _serve(self, producer: BulkProducer, events: int) -> None:
        if events & selectors.EVENT_READ:
            producer.receive()
        if events & selectors.EVENT_WRITE:
            producer.send()
        if producer.closed:
            self._selector.unregister(producer.socket)
        elif not producer.left:
            self._selector.modify(producer.socket, selectors.EVENT_READ, producer)
