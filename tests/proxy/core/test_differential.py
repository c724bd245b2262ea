"""Under any chunking a session does the same as a plain model that handles one frame at a time."""

import os
from random import Random

import pytest

from proxy.core.stats.capture import Capture
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.differential import Run
from tests.support.scripts import script

SEEDS = int(os.environ.get("SLUICE_DIFFERENTIAL_SEEDS", "10000"))
PARTS = 20
LAW_SEEDS = 160
WHOLE = (1 << 18,)
CUT = (1, 7, 30)


def run(seed: int) -> None:
    """Run one seed; a failure names it."""
    rng = Random(seed)
    made = script(rng, seed)
    try:
        Run(made, rng).go()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize("part", range(PARTS))
def test_a_session_does_what_the_plain_model_does(part):
    """Any chunking and interleaving, both sides, all verdicts, small pools, brokers late, silent and lost."""
    first, after = (part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    for seed in range(first, after):
        run(seed)


def counted(seed: int, chunks: tuple[int, ...], *, fast: bool, topics: bool) -> dict[str, object]:
    """Return all counts and reports of one script."""
    made = script(Random(seed), seed)
    capture = None if fast else Capture()  # while it is open no plan uses the fast loop
    book = TopicUsage() if topics else None
    done = Run(
        made, Random(seed), chunks, capture=capture, topic_usage=book, meters_by_key=bool(seed & 1)
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
    }


def topic_rows(book: TopicUsage) -> list[tuple[object, ...]]:
    return [
        (use.user, use.topic, flow.frames, flow.partitions, flow.size_bytes, flow.records)
        for use in book.take()
        for flow in (use.produced, use.fetched)
    ]


@pytest.mark.parametrize("topics", [False, True], ids=["", "topics"])
@pytest.mark.parametrize("part", range(4))
def test_the_fast_loop_and_the_general_path_count_and_report_the_same(part, topics):
    """Meters, usage, topics, completions and close reasons of the same traffic are equal."""
    for seed in range(part, LAW_SEEDS, 4):
        fast = counted(seed, WHOLE, fast=True, topics=topics)
        general = {
            "cut": counted(seed, CUT, fast=True, topics=topics),
            "whole, no plan fast": counted(seed, WHOLE, fast=False, topics=topics),
            "cut, no plan fast": counted(seed, CUT, fast=False, topics=topics),
        }
        for path, counts in general.items():
            for name, count in fast.items():
                assert counts[name] == count, f"seed {seed}, {path}: {name}"
