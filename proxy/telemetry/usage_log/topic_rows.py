"""The family `topic`: who sent how much to which topic, and read of it, as the core's topic book counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.telemetry.usage_log.rows import Stamp, TopicRow, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.core.topic_book import TopicUse


def topic_rows(stamp: Stamp, ts_ms: int, uses: Sequence[TopicUse]) -> Iterator[TopicRow]:
    """One for each user and topic of this second."""
    for use in uses:
        sent, read = use.produced, use.fetched
        yield TopicRow(
            instance=stamp.instance,
            boot=stamp.boot,
            seq=stamp.next_seq("topic"),
            ts_ms=ts_ms,
            user=cut(use.user),
            topic=cut(use.topic),
            produce_requests=sent.frames,
            produce_partitions=sent.partitions,
            produce_bytes=sent.size_bytes,
            produce_batches=sent.batches,
            produce_records=sent.records,
            fetch_replies=read.frames,
            fetch_partitions=read.partitions,
            fetch_bytes=read.size_bytes,
            fetch_batches=read.batches,
            fetch_records=read.records,
        )
