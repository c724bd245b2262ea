"""The cases of `bench.replay`: one request and its reply, as real clients and brokers send them, and how they are read.

They are what a small benchmark does not show: requests of many partitions, requests that several reads cut, brokers
that take only a part. The small ones of one partition guard the closed loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.path import TWO_UNREACHED, quota_engine
from bench.replay.frames import (
    TOPIC,
    TOPIC_ID,
    Frames,
    api_versions,
    fetch,
    metadata,
    offset_commit,
    produce,
)
from policies.testing import BenchReporter
from proxy.core.engine import Engine
from proxy.core.session.engine_options import EngineOptions
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.sessions import make_engine


def _plain(**options: int | TopicUsage) -> Engine:
    """Return an engine that answers for a silent broker, as the application's does."""
    return make_engine(request_timeout_ms=30_000, **options)  # type: ignore[arg-type]


def _by_topic() -> Engine:
    """Return an engine that counts usage by topic."""
    return _informed(_plain(topic_usage=TopicUsage()))


def _with_all() -> Engine:
    """Return an engine with a quota, sampled traces and all families of usage."""
    options = EngineOptions(
        request_timeout_ms=30_000,
        keeps_traces=True,
        sample_every=1_000_000,
        meters_by_key=True,
        topic_usage=TopicUsage(),
    )
    return _informed(quota_engine(QUOTA, BenchReporter(), options))


def _informed(engine: Engine) -> Engine:
    """Let an engine know the topic's name, as after a client's first Metadata; return it."""
    engine.rewrites.learn({TOPIC_ID: TOPIC.decode()})
    return engine


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


QUOTA: Final[dict[str, object]] = {"quotas": [TWO_UNREACHED], "enforcement": "entity"}
WITH_QUOTA: Final = partial(quota_engine, QUOTA, BenchReporter())
SAMPLED: Final = partial(_plain, keeps_traces=True, sample_every=1_000_000)
TWELVE: Final = produce(13, 12, 90_000)
FOUR: Final = produce(13, 4, 60_000)
SMALL: Final = produce(11, 1, 100)
FETCHED: Final = fetch(15, 12, 60_000)
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
    Case("Produce v13, 12 partitions, 90 KB, 3 reads, usage by topic", TWELVE, 3, engine=_by_topic),
    Case("Produce v13, 12 partitions, 90 KB, usage by topic", TWELVE, engine=_by_topic),
    Case("Fetch v15, 12 partitions, 1 MB, 4 reads", fetch(15, 12, 1_000_000), 1, 4),
    Case("Fetch v18, 100 partitions, 1 MB, 4 reads", fetch(18, 100, 1_000_000), 1, 4),
    Case("Fetch v15, 12 partitions, 60 KB", FETCHED),
    Case("Fetch v18, 12 partitions, 60 KB", fetch(18, 12, 60_000)),
    Case("Fetch v15, 12 partitions, 60 KB, usage by topic", FETCHED, engine=_by_topic),
    Case(
        "Fetch v15, 12 partitions, 1 MB, 4 reads, usage by topic",
        *(fetch(15, 12, 1_000_000), 1, 4),
        engine=_by_topic,
    ),
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
    Case("event loop: Fetch v18, 12 partitions, 60 KB", fetch(18, 12, 60_000), through="loop"),
    Case(
        "event loop: Fetch v15, 4 partitions, 20 KB, quota, sampled, usage by topic",
        *(fetch(15, 4, 20_000), 1, 1, 1, "loop"),
        engine=_with_all,
    ),
    Case(
        "event loop: Produce v13, 4 partitions, 20 KB, quota, sampled, usage by topic",
        *(produce(13, 4, 20_000), 1, 1, 1, "loop"),
        engine=_with_all,
    ),
    Case("connection: accept, dial, ApiVersions v3, end", api_versions(), through="port"),
)
