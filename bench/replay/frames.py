"""Requests and their replies as real clients and brokers send them: what the replay and the bench of requests play.

Record bytes are always the same, so that each run does the same.
"""

from struct import pack
from typing import Final, NamedTuple

from policies.testing.record_writer import record_batch
from wire.apis import OFFERED

CORRELATION_ID: Final = 7
CLIENT_ID: Final = b"perf-producer-client"
TOPIC: Final = b"perf"
TOPIC_ID: Final = bytes(15) + b"\x01"
GROUP: Final = b"\x06group"
CONSUMER: Final = b"\x09consumer"
FIRST_WITH_IDS: Final = 13
"""The version from which Produce and Fetch name topics by their ids."""
NO_TAGS: Final = b"\x00"


class Frames(NamedTuple):
    """A request and its reply."""

    request: bytes
    reply: bytes


def varint(value: int) -> bytes:
    """Return an UNSIGNED_VARINT."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def listed(items: list[bytes]) -> bytes:
    """Return a COMPACT_ARRAY."""
    return varint(len(items) + 1) + b"".join(items)


def topic_of(version: int) -> bytes:
    """Return how Produce and Fetch name the topic in this version."""
    return TOPIC_ID if version >= FIRST_WITH_IDS else varint(len(TOPIC) + 1) + TOPIC


def frames(api_key: int, version: int, request: bytes, reply: bytes) -> Frames:
    """Return both frames with flexible headers."""
    head = pack(">hhih", api_key, version, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID + NO_TAGS
    answer = pack(">i", CORRELATION_ID) + NO_TAGS
    return Frames(
        pack(">i", len(head) + len(request)) + head + request,
        pack(">i", len(answer) + len(reply)) + answer + reply,
    )


def produce(version: int, partitions: int, size: int) -> Frames:
    """Return a Produce (v9 or newer) of so many bytes over these partitions, and its reply without an error."""
    records = record_batch([bytes(size // partitions)])
    sent = [
        pack(">i", index) + varint(len(records) + 1) + records + NO_TAGS
        for index in range(partitions)
    ]
    written = [
        pack(">ihqqq", index, 0, 123_456, -1, 0) + b"\x01\x00" + NO_TAGS
        for index in range(partitions)
    ]
    topic = topic_of(version)
    return frames(
        0,
        version,
        b"\x00" + pack(">hi", -1, 30_000) + listed([topic + listed(sent) + NO_TAGS]) + NO_TAGS,
        listed([topic + listed(written) + NO_TAGS]) + pack(">i", 0) + NO_TAGS,
    )


def fetch(version: int, partitions: int, size: int) -> Frames:
    """Return a Fetch (v12 to v18) of these partitions, and its reply of so many bytes."""
    records = record_batch([bytes(size // partitions)])
    asked = [
        pack(">iiqiqi", index, 3, 1000, 3, 0, 1 << 20) + NO_TAGS for index in range(partitions)
    ]
    read = [
        pack(">ihqqq", index, 0, 5000, 5000, 0)
        + b"\x01"
        + pack(">i", -1)
        + varint(len(records) + 1)
        + records
        + NO_TAGS
        for index in range(partitions)
    ]
    replica = pack(">i", -1) if version < 15 else b""
    limits = pack(">iiibii", 500, 1, 52_428_800, 0, 0, -1)
    topic = topic_of(version)
    return frames(
        1,
        version,
        replica + limits + listed([topic + listed(asked) + NO_TAGS]) + b"\x01\x01" + NO_TAGS,
        pack(">ihi", 0, 0, 0) + listed([topic + listed(read) + NO_TAGS]) + NO_TAGS,
    )


def metadata(partitions: int) -> Frames:
    """Return a Metadata v12 of one topic, and its reply with three brokers, whose addresses are rewritten."""
    brokers = [
        pack(">i", node) + b"\x0bkafka-%d.xy" % node + pack(">i", 9092) + b"\x00" + NO_TAGS
        for node in range(3)
    ]
    led = [
        pack(">hiii", 0, index, index % 3, 1) + 2 * (b"\x02" + bytes(4)) + b"\x01" + NO_TAGS
        for index in range(partitions)
    ]
    topic = bytes(2) + b"\x05" + TOPIC + bytes(16) + b"\x00" + listed(led) + bytes(4) + NO_TAGS
    return frames(
        3,
        12,
        listed([bytes(16) + b"\x05" + TOPIC + NO_TAGS]) + b"\x00\x00" + NO_TAGS,
        pack(">i", 0) + listed(brokers) + b"\x05abcd" + bytes(4) + listed([topic]) + NO_TAGS,
    )


def offset_commit(partitions: int) -> Frames:
    """Return an OffsetCommit v8 of one topic, and its reply without an error."""
    topic = varint(len(TOPIC) + 1) + TOPIC
    sent = [pack(">iqi", index, 1000, 3) + b"\x01" + NO_TAGS for index in range(partitions)]
    done = [pack(">ih", index, 0) + NO_TAGS for index in range(partitions)]
    member_of = GROUP + pack(">i", 3) + b"\x07member" + b"\x00"
    return frames(
        8,
        8,
        member_of + listed([topic + listed(sent) + NO_TAGS]) + NO_TAGS,
        pack(">i", 0) + listed([topic + listed(done) + NO_TAGS]) + NO_TAGS,
    )


def offset_fetch(partitions: int) -> Frames:
    """Return an OffsetFetch v8 of one group and topic, and its reply."""
    topic = varint(len(TOPIC) + 1) + TOPIC
    asked = topic + listed([pack(">i", index) for index in range(partitions)]) + NO_TAGS
    found = [
        pack(">iqi", index, 1000, 3) + b"\x01" + bytes(2) + NO_TAGS for index in range(partitions)
    ]
    answered = topic + listed(found) + NO_TAGS
    return frames(
        9,
        8,
        listed([GROUP + listed([asked]) + NO_TAGS]) + b"\x01" + NO_TAGS,
        pack(">i", 0) + listed([GROUP + listed([answered]) + bytes(2) + NO_TAGS]) + NO_TAGS,
    )


def join_group(members: int) -> Frames:
    """Return a JoinGroup v9, and the reply to the leader: what all members have subscribed to."""
    subscribed = pack(">hii4sii", 1, 1, len(TOPIC), TOPIC, -1, 0)
    protocol = b"\x06range" + varint(len(subscribed) + 1) + subscribed + NO_TAGS
    joined = [
        member(index) + b"\x00" + varint(len(subscribed) + 1) + subscribed + NO_TAGS
        for index in range(members)
    ]
    timeouts = pack(">ii", 45_000, 300_000)
    chosen = pack(">ihi", 0, 0, 7) + CONSUMER + b"\x06range" + member(0) + b"\x00" + member(0)
    return frames(
        11,
        9,
        GROUP + timeouts + member(0) + b"\x00" + CONSUMER + listed([protocol]) + b"\x00" + NO_TAGS,
        chosen + listed(joined) + NO_TAGS,
    )


def sync_group(members: int) -> Frames:
    """Return a SyncGroup v5 of the leader, with the partitions of each member, and the reply with its own."""
    assigned = pack(">hii4sii", 1, 1, len(TOPIC), TOPIC, 1, 0) + pack(">i", -1)
    given = varint(len(assigned) + 1) + assigned
    sent = [member(index) + given + NO_TAGS for index in range(members)]
    protocol = CONSUMER + b"\x06range"
    return frames(
        14,
        5,
        GROUP + pack(">i", 7) + member(0) + b"\x00" + protocol + listed(sent) + NO_TAGS,
        pack(">ih", 0, 0) + protocol + given + NO_TAGS,
    )


def member(index: int) -> bytes:
    """Return the id of a group's member, as brokers make it of the client id."""
    name = CLIENT_ID + b"-%08d-6a1f-4c8e-9a77-2f0f7f3c5d10" % index
    return varint(len(name) + 1) + name


def api_versions() -> Frames:
    """Return an ApiVersions v3, which each connection begins with, and the reply of a broker of Kafka 4."""
    ranges = [pack(">hhh", key, *offered) + NO_TAGS for key, offered in sorted(OFFERED.items())]
    software = b"\x12apache-kafka-java\x064.0.0" + NO_TAGS
    head = pack(">hhih", 18, 3, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID + NO_TAGS
    answer = pack(">ih", CORRELATION_ID, 0) + listed(ranges) + bytes(4) + NO_TAGS
    return Frames(
        pack(">i", len(head) + len(software)) + head + software,
        pack(">i", len(answer)) + answer,
    )
