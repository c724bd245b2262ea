"""Kafka frames made by hand, so that tests do not depend on the code they test."""

import struct

PRODUCE, FETCH, LIST_OFFSETS, METADATA = range(4)
HEARTBEAT, API_VERSIONS, DELETE_TOPICS = 12, 18, 20
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


def frame(payload: bytes) -> bytes:
    """Return the payload with its length in front."""
    return struct.pack(">i", len(payload)) + payload


def string(text: str | None) -> bytes:
    """Kafka's nullable STRING."""
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def bytes_field(value: bytes | None) -> bytes:
    """A classic bytes field: int32 length, then the bytes; None is null."""
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def compact(text: str | None) -> bytes:
    """Kafka's COMPACT_NULLABLE_STRING, up to 126 bytes."""
    if text is None:
        return b"\x00"
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data) + 1]) + data


def request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    body: bytes = b"",
    *,
    client_id: str | None = "tests",
    tagged: bool = False,
    tags: bytes = b"\x00",
) -> bytes:
    """A request frame; `tagged` for request header v2."""
    head = struct.pack(">hhi", api_key, api_version, correlation_id) + string(client_id)
    return frame(head + (tags if tagged else b"") + body)


def reply(correlation_id: int, body: bytes = b"", *, tagged: bool = False) -> bytes:
    """A response frame; `tagged` for response header v1."""
    return frame(struct.pack(">i", correlation_id) + (b"\x00" if tagged else b"") + body)


def heartbeat(correlation_id: int, client_id: str | None = "tests", pad: int = 0) -> bytes:
    """Heartbeat v0: a small request without a throttle time in its reply."""
    body = string("group" + "x" * pad) + struct.pack(">i", 3) + string("member")
    return request(HEARTBEAT, 0, correlation_id, body, client_id=client_id)


def heartbeat_reply(correlation_id: int) -> bytes:
    """No error."""
    return reply(correlation_id, b"\x00\x00")


def beat(correlation_id: int, version: int = 1) -> bytes:
    """Heartbeat v1 (its reply begins with throttle_time_ms) or v4 (and is flexible)."""
    if version < 4:
        body = string("group") + struct.pack(">i", 3) + string("member")
        return request(HEARTBEAT, version, correlation_id, body)
    body = compact("group") + struct.pack(">i", 3) + compact("member") + b"\x00\x00"
    return request(HEARTBEAT, version, correlation_id, body, tagged=True)


def beat_reply(correlation_id: int, throttle_time_ms: int = 0, version: int = 1) -> bytes:
    """No error."""
    flexible = version >= 4
    body = struct.pack(">ih", throttle_time_ms, 0) + b"\x00" * flexible
    return reply(correlation_id, body, tagged=flexible)


_PATTERN = bytes(i * 7 % 251 for i in range(251))


def records(size_bytes: int) -> bytes:
    """Return bytes in the place of a record batch; Sluice does not parse them."""
    return (_PATTERN * (size_bytes // len(_PATTERN) + 1))[:size_bytes]


def produce(
    correlation_id: int,
    acks: int = -1,
    size_bytes: int = 50,
    *,
    topic: str = "t",
    client_id: str | None = "tests",
) -> bytes:
    """Produce v3: one topic, one partition."""
    body = (
        string(None)
        + struct.pack(">hi", acks, 30_000)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">i", 1)
        + struct.pack(">ii", 0, size_bytes)
        + records(size_bytes)
    )
    return request(PRODUCE, 3, correlation_id, body, client_id=client_id)


def produce_reply(correlation_id: int, topic: str = "t", throttle_time_ms: int = 0) -> bytes:
    """Produce v3, no error; throttle_time_ms is its last field."""
    body = (
        struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">i", 1)
        + struct.pack(">ihqq", 0, 0, 17, -1)
        + struct.pack(">i", throttle_time_ms)
    )
    return reply(correlation_id, body)


def metadata_request(correlation_id: int, client_id: str | None = "tests") -> bytes:
    """Metadata v1 for all topics."""
    return request(METADATA, 1, correlation_id, b"\xff\xff\xff\xff", client_id=client_id)


def metadata_reply(correlation_id: int, brokers: list[tuple[int, str, int]]) -> bytes:
    """Metadata v1 with these brokers and no topics."""
    body = struct.pack(">i", len(brokers))
    for node_id, host, port in brokers:
        body += struct.pack(">i", node_id) + string(host) + struct.pack(">i", port) + string(None)
    return reply(correlation_id, body + struct.pack(">i", 1) + struct.pack(">i", 0))


def metadata3_reply(
    correlation_id: int, brokers: list[tuple[int, str, int]], throttle_time_ms: int = 0
) -> bytes:
    """Metadata v3: as v1, with throttle_time_ms first and a cluster id."""
    body = struct.pack(">ii", throttle_time_ms, len(brokers))
    for node_id, host, port in brokers:
        body += struct.pack(">i", node_id) + string(host) + struct.pack(">i", port) + string(None)
    return reply(correlation_id, body + string("cluster") + struct.pack(">ii", 1, 0))


def whole_frames(stream: bytes) -> list[bytes]:
    """Return the whole frames of a byte stream, without an incomplete one at the end."""
    frames = []
    while len(stream) >= 4 and len(stream) >= (size := 4 + struct.unpack_from(">i", stream)[0]):
        frames.append(stream[:size])
        stream = stream[size:]
    return frames


def split(stream: bytes) -> list[bytes]:
    """Return the frames of a byte stream; raises AssertionError when the last one is incomplete."""
    frames = whole_frames(stream)
    assert sum(map(len, frames)) == len(stream), "a frame is cut"
    return frames


def is_silent(frame_bytes: bytes) -> bool:
    """Return whether it is a request of `produce` with acks=0, which gets no reply."""
    return frame_bytes[4:6] == b"\x00\x00" and frame_bytes[21:23] == b"\x00\x00"


def correlation_id(frame_bytes: bytes) -> int:
    """Return the correlation id of a reply frame."""
    found: int = struct.unpack_from(">i", frame_bytes, 4)[0]
    return found
