"""The family `topic`."""

from __future__ import annotations

from proxy.core.topic_book import TopicBook
from proxy.telemetry.usage_log.rows import Stamp
from proxy.telemetry.usage_log.topic_rows import topic_rows
from tests.support import frames as f


def test_each_user_and_topic_has_a_row() -> None:
    """Both directions stand in one row; `seq` goes on from row to row."""
    book = TopicBook()
    for topic in ("orders", "paid"):
        book.produced_whole("alice", 3, f.produce(1, topic=topic, size_bytes=200), 19, {})

    rows = list(topic_rows(Stamp("a", "b"), 7000, book.take()))

    assert [(row.topic, row.user, row.seq, row.ts_ms) for row in rows] == [
        ("orders", "alice", 1, 7000),
        ("paid", "alice", 2, 7000),
    ]
    assert [(row.produce_requests, row.produce_bytes) for row in rows] == [(1, 200)] * 2
    assert [(row.fetch_replies, row.fetch_bytes, row.fetch_records) for row in rows] == [
        (0, 0, 0)
    ] * 2
