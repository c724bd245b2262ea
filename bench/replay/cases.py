"""The cases of `bench.replay`: one request and its reply, as real clients and brokers send them, and how they are read.

They are what a small benchmark does not show: requests of many partitions, requests that several reads cut, brokers
that take only a part. The small ones of one partition guard the closed loop. Record bytes are always the same, so that
each run does the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import pack
from typing import Final, NamedTuple

from bench.path import TWO_UNREACHED, quota_engine
from policies.testing import BenchReporter
from policies.testing.record_writer import record_batch
from proxy.core.engine import Engine
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.sessions import make_engine
from wire.apis import OFFERED

CORRELATION_ID: Final = 7
CLIENT_ID: Final = b"perf-producer-client"
TOPIC: Final = b"perf"
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
    return bytes(15) + b"\x01" if version >= FIRST_WITH_IDS else varint(len(TOPIC) + 1) + TOPIC


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
    """Return a Fetch (v12 to v15) of these partitions, and its reply of so many bytes."""
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
    group = b"\x06group" + pack(">i", 3) + b"\x07member" + b"\x00"
    return frames(
        8,
        8,
        group + listed([topic + listed(sent) + NO_TAGS]) + NO_TAGS,
        pack(">i", 0) + listed([topic + listed(done) + NO_TAGS]) + NO_TAGS,
    )


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


def _plain(**options: int | TopicUsage) -> Engine:
    """Return an engine that answers for a silent broker, as the application's does."""
    return make_engine(request_timeout_ms=30_000, **options)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its reply, which arrive in `reads` and `reply_reads` equal pieces; or `batch` of them in one.

    `through`: what moves the bytes. "slow" is the event loop, too, and the broker's socket takes a part of the request.
    "port" is all of a connection, from its accept to its end.
    `must` and `aim` are the instructions that the compiled build may take.
    """

    name: str
    frames: Frames
    reads: int = 1
    reply_reads: int = 1
    batch: int = 1
    through: str = "session"
    engine: Callable[[], Engine] = _plain
    must: int | None = None
    aim: int | None = None

    @property
    def is_rewritten(self) -> bool:
        """Return whether the client gets another reply than the broker has sent."""
        return self.frames.request[4:6] in {b"\x00\x03", b"\x00\x12"}


WITH_QUOTA: Final = partial(
    quota_engine, {"quotas": [TWO_UNREACHED], "enforcement": "entity"}, BenchReporter()
)
SAMPLED: Final = partial(_plain, keeps_traces=True, sample_every=1_000_000)
TWELVE: Final = produce(13, 12, 90_000)
FOUR: Final = produce(13, 4, 60_000)
SMALL: Final = produce(11, 1, 100)
CASES: Final = (
    Case("Produce v13, 12 partitions, 90 KB, 3 reads", TWELVE, 3, must=46_000, aim=15_000),
    Case("Produce v13, 4 partitions, 60 KB, 3 reads", FOUR, 3),
    Case("Produce v12, 12 partitions, 90 KB, 3 reads", produce(12, 12, 90_000), 3),
    Case("Produce v13, 12 partitions, 90 KB", TWELVE, must=8_000, aim=4_000),
    Case("Produce v13, 12 partitions, 3 KB", produce(13, 12, 3000)),
    Case("Produce v11, 4 partitions, 60 KB", produce(11, 4, 60_000)),
    Case("Produce v13, 1 partition, 16 KB, 3 reads", produce(13, 1, 16_000), 3),
    Case("Produce v13, 50 partitions, 800 KB, 3 reads", produce(13, 50, 800_000), 3),
    Case("Produce v13, 12 partitions, 90 KB, 3 reads, quota", TWELVE, 3, engine=WITH_QUOTA),
    Case("Produce v13, 12 partitions, 90 KB, 3 reads, sampled", TWELVE, 3, engine=SAMPLED),
    Case(
        "Produce v13, 12 partitions, 90 KB, 3 reads, usage by topic",
        *(TWELVE, 3),
        engine=lambda: _plain(topic_usage=TopicUsage()),
    ),
    Case("Fetch v15, 12 partitions, 1 MB, 4 reads", fetch(15, 12, 1_000_000), 1, 4),
    Case("Fetch v15, 100 partitions, 1 MB, 4 reads", fetch(15, 100, 1_000_000), 1, 4),
    Case("Fetch v15, 12 partitions, 60 KB", fetch(15, 12, 60_000)),
    Case("Metadata v12, 1,000 partitions", metadata(1000)),
    Case("OffsetCommit v8, 50 partitions", offset_commit(50)),
    Case("Produce v11, 100 B", SMALL),
    Case("Produce v11, 100 B, 10 in a read", SMALL, batch=10),
    Case("Produce v11, 100 B, quota", SMALL, engine=WITH_QUOTA),
    Case(
        "event loop: Produce v13, 4 partitions, 20 KB",
        produce(13, 4, 20_000),
        through="loop",
        must=16_000,
        aim=10_000,
    ),
    Case("event loop: Produce v13, 4 partitions, 60 KB", FOUR, through="loop"),
    Case("event loop: Produce v13, 12 partitions, 90 KB", TWELVE, through="loop"),
    Case("event loop: the broker takes a part of 90 KB", TWELVE, through="slow"),
    Case(
        "event loop: Fetch v15, 4 partitions, 20 KB",
        fetch(15, 4, 20_000),
        through="loop",
        must=9_000,
        aim=7_500,
    ),
    Case("event loop: Fetch v15, 12 partitions, 60 KB", fetch(15, 12, 60_000), through="loop"),
    Case("connection: accept, dial, ApiVersions v3, end", api_versions(), through="port"),
)
