"""All bytes, counts and reports of one script of the differential test.

`python -m tests.support.model.differential_counts FIRST LAST` prints the build and a digest of the seeds from FIRST to
just before LAST, so that two builds can be compared.
"""

import hashlib
import sys
from random import Random

from proxy.cli import builds
from proxy.core.stats.capture import Capture
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.sessions import Wire, make_engine
from tests.support.model.differential import CHUNKS, Run
from tests.support.model.scripts import script


def sampled(seed: int) -> dict[str, object]:
    """Return the options with which an engine keeps traces: of no request, of each, or of every second or third."""
    return {"keeps_traces": bool(seed & 4), "sample_every": 1 + seed % 3}


def counted(
    seed: int, chunks: tuple[int, ...], *, fast: bool, topics: bool
) -> tuple[dict[str, object], bytes]:
    """Return all counts and reports of one script, and all bytes sent to the broker."""
    made = script(Random(seed), seed)
    capture = None if fast else Capture()  # while it is open no plan uses the fast loop
    book = TopicUsage() if topics else None
    done = Run(
        made,
        Random(seed),
        chunks,
        defers=bool(seed & 2),
        capture=capture,
        topic_usage=book,
        meters_by_key=bool(seed & 1),
        **sampled(seed),
    )
    done.go()
    engine, watcher = done.wire.engine, done.wire.watcher
    engine.advance(done.wire.now_ms + 2_000)
    meters = engine.meters.by_api()
    return {
        "meters": [
            (
                meter.name,
                meter.upstream,
                meter.outcomes,
                meter.waits,
                meter.parked,
                meter.request_bytes,
                meter.response_bytes,
            )
            for meter in meters
        ],
        "usage": watcher.rows,
        "topics": book and sorted(topic_rows(book)),
        "unread": book and book.unread,
        "closed": [reason for reason, _ in watcher.closed],
        "expired": engine.expired,
        "completions": engine.completions,
        "completed": done.policy and done.policy.completed,
        "named": done.policy and done.policy.named,
        "replies": done.wire.to_client,
    }, done.wire.to_broker


def topic_rows(book: TopicUsage) -> list[tuple[object, ...]]:
    return [
        (use.user, use.topic, flow.frames, flow.partitions, flow.size_bytes, flow.records)
        for use in book.take()
        for flow in (use.produced, use.fetched)
    ]


def topics_counted(data: bytes, times: int) -> list[tuple[object, ...]]:
    """Return the usage by topic of so many requests that came whole."""
    book = TopicUsage()
    wire = Wire(make_engine(topic_usage=book))
    for _ in range(times):
        wire.client(data)
    assert not book.unread
    return sorted(topic_rows(book))


def digest(first: int, last: int) -> str:
    """Return the digest of these seeds, each cut into random chunks."""
    whole = hashlib.sha256()
    for seed in range(first, last):
        try:
            counts, to_broker = counted(seed, CHUNKS, fast=True, topics=not seed % 3)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        expired = counts.pop("expired")
        text = repr((seed, counts, {name: getattr(expired, name) for name in expired.__slots__}))
        assert " at 0x" not in text, f"seed {seed}: a report without a value of its own"
        whole.update(text.encode() + to_broker)
    return whole.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"{builds.running()} {digest(int(sys.argv[1]), int(sys.argv[2]))}\n")
