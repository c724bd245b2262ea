"""Requests that wait at the broker, made by hand, and the content of the replies made in the broker's place."""

import struct

from policies.api import Forward, Need, Patch, Throttle
from tests.support.core.policies import Recorder, Silent
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.primitives import (
    INT32,
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
)

WAIT_MS = 29_500
"""The time of a produce with Kafka's usual timeout of 30 s."""
FETCH_MS = 1_500
"""The time of a fetch with the usual wait of 500 ms."""


def asked(version: int, topics, correlation_id: int = 7) -> bytes:
    """A Produce of (name or id, [(index, records)]); acks=all, 30 s."""
    body = body_of(version, topics)
    return f.request(f.PRODUCE, version, correlation_id, body, tagged=version >= 9)


def fetch_waiting(
    correlation_id: int, max_wait_ms: int = 500, min_bytes: int = 1, version: int = 4
) -> bytes:
    """A fetch of nothing, v4 to v15."""
    body = struct.pack(">i", -1) if version < 15 else b""
    body += struct.pack(">iiib", max_wait_ms, min_bytes, 1 << 20, 0)
    if version >= 7:
        body += struct.pack(">ii", 0, -1)
    if version >= 12:
        return f.request(f.FETCH, version, correlation_id, body + b"\x01\x01\x01\x00", tagged=True)
    body += struct.pack(">i", 0)
    body += struct.pack(">i", 0) if version >= 7 else b""
    body += f.string("") if version >= 11 else b""
    return f.request(f.FETCH, version, correlation_id, body)


def empty(correlation_id: int) -> bytes:
    """Return the local reply to a fetch v4."""
    return f.reply(correlation_id, struct.pack(">ii", 1, 0))


def ids(stream: bytes) -> list[int]:
    """Return the correlation ids of these replies."""
    return [f.correlation_id(each) for each in f.split(stream)]


def said_of(version: int, frame: bytes, key: int = ApiKey.PRODUCE):
    """Return the correlation id and the message of a whole reply frame."""
    api = api_of(key, version)
    (one,) = f.split(frame)
    body = one[8 + api.response_header_version :]
    return f.correlation_id(one), codec.decode_response(api, body)


def refused(version: int, frame: bytes):
    """Return [(name or id, [index])] of a reply that gives every partition REQUEST_TIMED_OUT."""
    correlation_id, message = said_of(version, frame)
    assert correlation_id == 7
    found = []
    for topic in message.responses:
        assert {p.error_code for p in topic.partition_responses} <= {ErrorCode.REQUEST_TIMED_OUT}
        name = topic.topic_id.bytes if version >= 13 else topic.name.encode()
        found.append((name, [p.index for p in topic.partition_responses]))
    return found


def indexes(topics):
    """Return what `refused` should return."""
    return [(name, [index for index, _ in partitions]) for name, partitions in topics]


POLICIES = {
    "none": list,
    "told": lambda: [Silent()],
    "asked": lambda: [Recorder()],
    "head": lambda: [Recorder(needs=Need.HEAD)],
    "body": lambda: [Recorder(needs=Need.BODY)],
    "topics": lambda: [Recorder(needs=Need.TOPICS)],
    "patched": lambda: [Recorder(lambda _: Forward((Patch(0, b""),)), needs=Need.HEAD)],
    "throttled": lambda: [Recorder(lambda _: Throttle(10))],
}
"""The policies that may ask for a request, by how much of it they need."""


def body_of(version: int, asked, *, transactional_id: bytes | None = None, tags=b"\x00") -> bytes:
    """Return a request body made by hand: (name or topic id, [(index, records)]); `tags` at every level."""
    flexible = version >= 9
    counted = encode_compact_count if flexible else encode_count
    spelt = encode_compact if flexible else encode_string
    bytes_of = encode_compact if flexible else f.bytes_field
    end = tags if flexible else b""
    body = spelt(transactional_id) + b"\xff\xff" + INT32.pack(30_000) + counted(len(asked))
    for name, partitions in asked:
        body += (name if version >= 13 else spelt(name)) + counted(len(partitions))
        for index, records in partitions:
            body += INT32.pack(index) + bytes_of(records) + end
        body += end
    return body + end
