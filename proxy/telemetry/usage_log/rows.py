"""The columns of the usage records: one struct a family, one JSON object a line.

Rules:
- `v` is the major version. Columns may be added without a new one; none changes its meaning or unit.
- A row is written once and never changed. `seq` has no gaps within (instance, boot, family): one that
  is missing was lost.
- Key and counts are of the second `ts_ms` to `ts_ms` + `window_ms` (milliseconds since the epoch, whole seconds).
- Names are cut at NAME_MOST_CHARS: a client chooses its own, and a row is not a place for a novel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from proxy.core.usage import WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.api import EffectiveQuota
    from proxy.core.usage import UsageRow

VERSION: Final = 1
NAME_MOST_CHARS: Final = 1024


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What every row begins with. `boot` is unique to one start of one process."""

    v: int = VERSION
    instance: str
    boot: str
    seq: int
    ts_ms: int


class EntityRow(Row, frozen=True, kw_only=True, tag_field="family", tag="entity"):
    """What one user and client id used in one second. Times of several connections add up.

    `charged` are the requests that a quota counts, or would; a quota policy's samples are sums of it.
    The last four columns say what was in force when the second was over; null: no request rate is.
    """

    window_ms: int = WINDOW_MS
    user: str
    client_id: str
    requests: int
    charged: int
    exempt: int
    request_bytes: int
    charged_bytes: int
    exempt_bytes: int
    response_bytes: int
    connections: int
    throttled: int
    throttle_ms: int
    throttle_ms_max: int
    blocked_ms: int
    mute_ms: int
    enforcement: str | None = None
    quota_entity: str | None = None
    quota_rate: float | None = None
    quota_rev: str | None = None


class ApiRow(Row, frozen=True, kw_only=True, tag_field="family", tag="api"):
    """The requests of one user, client id and API that ended in one second.

    `requests` is the sum of the five ways to end; the bytes are of those replied to. `X_i` and `X_n` are
    a sparse histogram of what a request waited in stage X: bucket indexes and their counts (proxy.core.histogram).
    """

    window_ms: int = WINDOW_MS
    user: str
    client_id: str
    api_key: int
    api: str
    requests: int
    replied: int
    no_reply: int
    answered: int
    expired: int
    disconnected: int
    request_bytes: int
    response_bytes: int
    upstream_i: list[int]
    upstream_n: list[int]
    receive_i: list[int]
    receive_n: list[int]
    memory_i: list[int]
    memory_n: list[int]
    throttle_i: list[int]
    throttle_n: list[int]
    purgatory_i: list[int]
    purgatory_n: list[int]


class InstanceRow(Row, frozen=True, kw_only=True, tag_field="family", tag="instance"):
    """The process itself at the end of one second. `..._total` counts since its start."""

    window_ms: int = WINDOW_MS
    version: str
    keys: int
    sessions: int
    steps: int
    step_us_p50: float
    step_us_p99: float
    request_pool_size_bytes: int
    request_pool_used_bytes: int
    request_pool_depleted_ms: int
    response_pool_size_bytes: int
    response_pool_used_bytes: int
    response_pool_depleted_ms: int
    held: int
    watched: int
    timers: int
    expired_produce_total: int
    expired_fetch_total: int
    rows_dropped_total: int
    rows_unpublished_total: int
    spans_dropped_total: int
    files_deleted_total: int
    topics_unread_total: int


class TopicRow(Row, frozen=True, kw_only=True, tag_field="family", tag="topic"):
    """What one user sent to and read of one topic in one second.

    Bytes are those of record batches, as sent (compressed); partitions are counted once a request.
    """

    window_ms: int = WINDOW_MS
    user: str
    topic: str
    produce_requests: int
    produce_partitions: int
    produce_bytes: int
    produce_batches: int
    produce_records: int
    fetch_replies: int
    fetch_partitions: int
    fetch_bytes: int
    fetch_batches: int
    fetch_records: int


class CaptureRow(Row, frozen=True, kw_only=True, tag_field="family", tag="capture"):
    """One request, written when it has ended; `seq` is the order in which requests were asked about.

    Every asking of the policies has a number from one counter: `event` (the request, at `now_ms`),
    `released_event` (again, after a hold, at `released_ms`), `replied_event` (its reply, at `replied_ms`).
    Sorted by these, the rows are all that the policies saw, in order. 0: never asked.
    """

    event: int
    now_ms: int
    session: int
    exchange: int
    user: str
    client_id: str
    node: int | None
    api_key: int
    api_version: int
    acks: int | None
    size_bytes: int
    charged: bool
    verdict: str
    delay_ms: int
    released_event: list[int]
    released_ms: list[int]
    replied_event: int
    replied_ms: int
    reply_bytes: int
    reply_throttle_time_ms: int
    reply_delay_ms: int
    outcome: str
    ended_ms: int


class Stamp:
    """Who writes, and the next `seq` of each family."""

    def __init__(self, instance: str, boot: str) -> None:
        self.instance = instance
        self.boot = boot
        self._last: dict[str, int] = {}

    def next_seq(self, family: str) -> int:
        """From 1."""
        seq = self._last[family] = self._last.get(family, 0) + 1
        return seq

    def skip(self, family: str, rows: int) -> None:
        """So many are lost, and shall be missed."""
        self._last[family] = self._last.get(family, 0) + rows


def entity_rows(
    stamp: Stamp, rows: Sequence[UsageRow], effective_quota: Sequence[EffectiveQuota | None]
) -> Iterator[EntityRow]:
    """The core's rows and what was in force for each, as they are written."""
    for row, limit in zip(rows, effective_quota, strict=True):
        used = row._asdict()
        used["user"] = cut(row.user)
        used["client_id"] = cut(row.client_id)
        if limit is not None:
            used["enforcement"] = limit.enforcement
            used["quota_entity"] = cut(limit.entity)
            used["quota_rate"] = limit.rate
            used["quota_rev"] = limit.rev
        yield EntityRow(
            instance=stamp.instance, boot=stamp.boot, seq=stamp.next_seq("entity"), **used
        )


def cut(name: str) -> str:
    """A name that somebody else has chosen."""
    return name if len(name) <= NAME_MOST_CHARS else name[:NAME_MOST_CHARS]
