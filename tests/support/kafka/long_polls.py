"""Raw Produce and Fetch requests for a real broker, with the time each wait took; and a thousand of them at once.

Frames are made by hand (Produce v7, Fetch v11: the last versions without tags that know fetch sessions), replies are
read by the codec. Everything is one thread: a reply's time is when this process could read it.
"""

import selectors
import socket
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from kafka.record import MemoryRecordsBuilder

from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.raw import api_versions_request, receive
from wire import codec

PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11
TIMEOUT_SECONDS: Final = 120
MIB: Final = 1 << 20
_ESTABLISHED: Final = "01"


class Written(NamedTuple):
    """The result of one partition in a Produce reply."""

    partition: int
    code: int
    offset: int


class Fetched(NamedTuple):
    """The content of a Fetch reply."""

    code: int
    session_id: int
    throttle_time_ms: int
    partitions: int
    records_bytes: int


def batch(value: bytes) -> bytes:
    """A record batch of one record."""
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    builder.append(timestamp=None, key=None, value=value)
    builder.close()
    return bytes(builder.buffer())


def produce(
    correlation_id: int, topic: str, value: bytes, timeout_ms: int, partitions: int = 1
) -> bytes:
    """The same record for each partition, acks=all."""
    records = batch(value)
    body = f.string(None) + struct.pack(">hii", -1, timeout_ms, 1) + f.string(topic)
    body += struct.pack(">i", partitions)
    for partition in range(partitions):
        body += struct.pack(">ii", partition, len(records)) + records
    return f.request(f.PRODUCE, PRODUCE_VERSION, correlation_id, body)


def fetch(
    correlation_id: int,
    topic: str,
    max_wait_ms: int,
    *,
    min_bytes: int = MIB,
    offset: int = 0,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    """Partition 0 from this offset on. `session`: id and epoch; (0, 0) wishes a session."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, 50 * MIB, 0, *session)
    body += struct.pack(">i", 1) + f.string(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, MIB)
    return f.request(
        f.FETCH, FETCH_VERSION, correlation_id, body + struct.pack(">i", 0) + f.string("")
    )


def read_produce(reply: bytes) -> list[Written]:
    """Parse a whole Produce reply frame."""
    told = codec.decode_response(api_of(f.PRODUCE, PRODUCE_VERSION), reply[8:])
    return [
        Written(each.index, int(each.error_code), each.base_offset)
        for topic in told.responses
        for each in topic.partition_responses
    ]


def read_fetch(reply: bytes) -> Fetched:
    """Parse a whole Fetch reply frame."""
    told = codec.decode_response(api_of(f.FETCH, FETCH_VERSION), reply[8:])
    partitions = [each for topic in told.responses for each in topic.partitions]
    codes = {int(told.error_code), *(int(each.error_code) for each in partitions)}
    assert len(codes) == 1, codes
    size = sum(len(each.records or b"") for each in partitions)
    throttle_ms = told.throttle_time.total_seconds() * 1000
    return Fetched(codes.pop(), told.session_id, round(throttle_ms), len(partitions), size)


class Talk:
    """One connection to `address` (host:port)."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        """Send a request; its time counts from here."""
        self.sent_s = time.monotonic()
        self.socket.sendall(frame)

    def reply(self) -> tuple[bytes, float]:
        """Return the next reply, a whole frame, and the milliseconds since the last request."""
        head = receive(self.socket, 4)
        frame = head + receive(self.socket, *struct.unpack(">i", head))
        return frame, (time.monotonic() - self.sent_s) * 1000

    def ask(self, frame: bytes) -> tuple[bytes, float]:
        """Send a request and return its reply."""
        self.send(frame)
        got = self.reply()
        assert f.correlation_id(got[0]) == f.correlation_id(frame[4:]), "another request's reply"
        return got


@dataclass(slots=True)
class Parked:
    """One of many connections with a request in flight: its replies, their times, and its end."""

    talk: Talk
    data: bytes = b""
    waited_ms: float | None = None
    end: str = ""

    @property
    def replied(self) -> bool:
        """Return whether at least one whole reply has arrived."""
        return len(self.data) >= 4 and len(self.data) >= 4 + struct.unpack_from(">i", self.data)[0]


@dataclass(slots=True)
class Crowd:
    """Many connections that do the same at once."""

    members: list[Parked] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.members:
            each.talk.socket.close()

    def connect(self, address: str, count: int) -> None:
        """Open so many more of them; the broker at the other end has answered each once."""
        self.members += [Parked(Talk(address)) for _ in range(count)]
        self.send(api_versions_request(0))
        self.await_replies(TIMEOUT_SECONDS)
        assert all(each.replied for each in self.members)

    def send(self, frame: bytes) -> None:
        """Send the same request on every connection."""
        for each in self.members:
            each.data, each.waited_ms = b"", None
            each.talk.send(frame)

    def await_replies(self, seconds: float, *, and_end: bool = False) -> None:
        """Read until every connection has a reply (`and_end`: and its end), or the time is up."""
        give_up = time.monotonic() + seconds
        with selectors.DefaultSelector() as waiting:
            for each in self.members:
                each.talk.socket.setblocking(False)
                waiting.register(each.talk.socket, selectors.EVENT_READ, each)
            while waiting.get_map() and (left := give_up - time.monotonic()) > 0:
                for key, _ in waiting.select(left):
                    each = key.data
                    _read(each)
                    if each.end or (each.replied and not and_end):
                        waiting.unregister(each.talk.socket)
        for each in self.members:
            each.talk.socket.settimeout(TIMEOUT_SECONDS)


def _read(parked: Parked) -> None:
    try:
        more = parked.talk.socket.recv(65536)
    except BlockingIOError:
        return
    except OSError as error:
        parked.end = type(error).__name__
        return
    if not more:
        parked.end = "closed"
        return
    parked.data += more
    if parked.replied and parked.waited_ms is None:
        parked.waited_ms = (time.monotonic() - parked.talk.sent_s) * 1000


def unread_bytes(port: int) -> int:
    """Return the number of bytes that were sent to this machine's sockets at `port` and that these have not read.

    On a busy machine even the loopback needs time. What is on its way counts, and is looked at first.
    """
    return _queued(port, at=2, sent=True) or _queued(port, at=1, sent=False)


def _queued(port: int, at: int, *, sent: bool) -> int:
    """Return the bytes in queues of sockets with this port in column `at`: 1 is the local one, 2 the remote one."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(row[4].split(":")[0 if sent else 1], 16)
        for row in rows
        if row[3] == _ESTABLISHED and int(row[at].rpartition(":")[2], 16) == port
    )
