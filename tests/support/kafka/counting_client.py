"""A Kafka client on one connection that keeps count of everything: what the usage log must say, to the byte.

It speaks the protocol by hand. It waits for the replies to what it sends together, and obeys no throttle: Sluice mutes
it.
"""

import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Self

from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.messages.record_batches import batch

_API: Final = {
    f.PRODUCE: "Produce",
    f.FETCH: "Fetch",
    f.METADATA: "Metadata",
    f.HEARTBEAT: "Heartbeat",
}
_BATCH_HEAD: Final = struct.Struct(">qi")
_RECORDS_AT: Final = 57


@dataclass
class Counts:
    """The counts of clients: by (client id, API) and column, by topic and column, by client id and column."""

    api: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    topics: dict[str, Counter[str]] = field(default_factory=dict)
    throttles: dict[str, Counter[str]] = field(default_factory=dict)

    def clients(self) -> dict[str, Counter[str]]:
        """Return requests, request_bytes and response_bytes by client id."""
        sums: dict[str, Counter[str]] = {}
        for (client_id, _), counted in self.api.items():
            sums.setdefault(client_id, Counter()).update(counted)
        return sums


class CountingClient:
    """A connection to `port` as `client_id`; a context manager. Several may share `counts` in one thread."""

    def __init__(self, port: int, client_id: str, counts: Counts) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._client_id = client_id
        self._counts = counts
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def metadata(self, count: int = 1) -> None:
        """Ask for all brokers and topics, so many times at once."""
        self._ask(f.METADATA, 3, b"\xff\xff\xff\xff", count)

    def heartbeat(self, count: int = 1) -> None:
        """Send heartbeats of a group that does not exist, so many at once."""
        body = f.string("group") + struct.pack(">i", 3) + f.string("member")
        self._ask(f.HEARTBEAT, 1, body, count)

    def produce(self, topic: str, records: int, count: int = 1) -> None:
        """Produce one batch of so many records to partition 0, so many times at once."""
        data = batch(records)
        body = f.string(None) + struct.pack(">hii", -1, 30_000, 1) + f.string(topic)
        body += struct.pack(">iii", 1, 0, len(data)) + data
        for reply in self._ask(f.PRODUCE, 3, body, count):
            (error,) = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(topic) + 4 + 4)
            assert error == 0, f"produce to {topic}: error {error}"
        self._topic(topic).update(
            produce_requests=count,
            produce_bytes=count * len(data),
            produce_records=count * records,
        )

    def fetch(self, topic: str, offset: int = 0) -> int:
        """Fetch partition 0 from an offset; return the number of records."""
        most = 1 << 25
        body = struct.pack(">iiiibi", -1, 500, 1, most, 0, 1) + f.string(topic)
        (reply,) = self._ask(f.FETCH, 4, body + struct.pack(">iiqi", 1, 0, offset, most), 1)
        at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        error, _, _, aborted, size = struct.unpack_from(">hqqii", reply, at)
        assert (error, max(aborted, 0)) == (0, 0), f"fetch from {topic}: error {error}"
        records = _count_records(reply[len(reply) - size :])
        self._topic(topic).update(fetch_replies=1, fetch_bytes=size, fetch_records=records)
        return records

    def _ask(self, api_key: int, version: int, body: bytes, count: int) -> list[bytes]:
        """Send a request so many times at once; return the replies, each from its correlation id on."""
        counted = self._counts.api.setdefault((self._client_id, _API[api_key]), Counter())
        throttles = self._counts.throttles.setdefault(self._client_id, Counter())
        sent = b""
        for _ in range(count):
            self._correlation_id += 1
            sent += f.request(
                api_key, version, self._correlation_id, body, client_id=self._client_id
            )
        self._socket.sendall(sent)
        replies = []
        for _ in range(count):
            size = int.from_bytes(receive(self._socket, 4), "big")
            replies.append(receive(self._socket, size))
            counted.update(requests=1, response_bytes=4 + size)
            place = size - 4 if api_key == f.PRODUCE else 4
            (throttle_ms,) = struct.unpack_from(">i", replies[-1], place)
            throttles.update(throttled=throttle_ms > 0, throttle_ms=throttle_ms)
        counted.update(request_bytes=len(sent))
        return replies

    def _topic(self, topic: str) -> Counter[str]:
        return self._counts.topics.setdefault(topic, Counter())


def _count_records(batches: bytes) -> int:
    records = at = 0
    while at < len(batches):
        _, size = _BATCH_HEAD.unpack_from(batches, at)
        records += struct.unpack_from(">i", batches, at + _RECORDS_AT)[0]
        at += _BATCH_HEAD.size + size
    return records
