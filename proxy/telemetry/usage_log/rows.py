"""The columns of the usage log: one struct per family, one JSON object per line.

Rules:
- `v` is the major version. Columns may be added within a version; none changes its meaning or unit.
- A row is written once and never changed. `seq` has no gaps within (instance, boot, family): a missing number is a
  lost row.
- Counts cover the second from `ts_ms` to `ts_ms` + `window_ms` (milliseconds since the epoch, whole seconds).
- Names, which clients choose, are cut to MAX_NAME_CHARS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast, get_type_hints

import msgspec

from proxy.core.stats.usage import WINDOW_MS, UsageRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.api import EffectiveQuota
    from proxy.core.stats.capture import Seen
    from proxy.core.stats.topic_usage import TopicUse
    from proxy.telemetry.usage_log.missing_rights import MissingRight

VERSION: Final = 1
MAX_NAME_CHARS: Final = 1024


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The first columns of every row. `boot` is unique to one start of one process."""

    v: int = VERSION
    instance: str
    boot: str
    seq: int
    ts_ms: int


EntityRow = cast(
    "type[Row]",
    msgspec.defstruct(
        "EntityRow",
        [
            ("window_ms", int, WINDOW_MS),
            *((name, kind) for name, kind in get_type_hints(UsageRow).items() if name != "ts_ms"),
            ("enforcement", str | None, None),
            ("quota_entity", str | None, None),
            ("quota_rate", float | None, None),
            ("quota_rev", str | None, None),
        ],
        bases=(Row,),
        module=__name__,
        frozen=True,
        kw_only=True,
        tag_field="family",
        tag="entity",
    ),
)
"""The use of one user and client id in one second: the columns of UsageRow. Times of several connections are added.

`charged` counts the requests that a quota charges or would charge; a quota policy's samples are sums of it.
The last four columns are the request rate enforced at the end of the second; null without one.
"""


class ApiRow(Row, frozen=True, kw_only=True, tag_field="family", tag="api"):
    """The requests of one user, client id and API that ended in one second.

    `requests` is the sum of the next five columns; the bytes are those of replied requests. `X_i` and `X_n` are a
    sparse histogram of the time spent in stage X: bucket indexes and their counts (see `proxy.core.stats.histogram`).
    `delay` has the throttled requests, and for each all that EntityRow adds to `throttle_ms` for it.
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
    delay_i: list[int]
    delay_n: list[int]


class InstanceRow(Row, frozen=True, kw_only=True, tag_field="family", tag="instance"):
    """The process at the end of one second. `..._total` counts since its start."""

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
    """The records that one user produced to and fetched from one topic in one second.

    Bytes are those of the record batches as sent (compressed); a partition counts once per request.
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


class AccessRow(Row, frozen=True, kw_only=True, tag_field="family", tag="access"):
    """A right that one client needed in one second, and that the rules of `policy`, which only observes, do not give.

    `kind` is topic, group, transaction or cluster; of the cluster `name` is the act. `name` is null for all topics.
    """

    window_ms: int = WINDOW_MS
    user: str
    proof: str
    client_id: str
    policy: str
    kind: str
    name: str | None
    operation: str
    requests: int


class CaptureRow(Row, frozen=True, kw_only=True, tag_field="family", tag="capture"):
    """One request, written when it has ended; `seq` is the order in which the policies were first asked.

    One counter numbers every call of the policies: `event` (the request, at `now_ms`), `released_event` (again after
    a hold, at `released_ms`), `replied_event` (its reply, at `replied_ms`); 0 means not called. Sorted by these
    numbers, the rows are everything that the policies saw, in order.
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


class Sequencer:
    """The instance and boot of this process, and the next `seq` of each family."""

    def __init__(self, instance: str, boot: str) -> None:
        self.instance = instance
        self.boot = boot
        self._last: dict[str, int] = {}

    def next_seq(self, family: str) -> int:
        """Return the next number of a family, from 1."""
        seq = self._last[family] = self._last.get(family, 0) + 1
        return seq

    def skip(self, family: str, rows: int) -> None:
        """Leave a gap for this many lost rows."""
        self._last[family] = self._last.get(family, 0) + rows


def entity_rows(
    sequencer: Sequencer, rows: Sequence[UsageRow], effective_quota: Sequence[EffectiveQuota | None]
) -> Iterator[Row]:
    """Yield a row for each of the core's, with the request rate in force for it."""
    for row, limit in zip(rows, effective_quota, strict=True):
        used = row._asdict()
        used["user"] = cut_name(row.user)
        used["client_id"] = cut_name(row.client_id)
        if limit is not None:
            used["enforcement"] = limit.enforcement
            used["quota_entity"] = cut_name(limit.entity)
            used["quota_rate"] = limit.rate
            used["quota_rev"] = limit.rev
        yield EntityRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=sequencer.next_seq("entity"),
            **used,
        )


def topic_rows(sequencer: Sequencer, ts_ms: int, uses: Sequence[TopicUse]) -> Iterator[TopicRow]:
    """Yield a row for each user and topic of the second `ts_ms`."""
    for use in uses:
        produced, fetched = use.produced, use.fetched
        yield TopicRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=sequencer.next_seq("topic"),
            ts_ms=ts_ms,
            user=cut_name(use.user),
            topic=cut_name(use.topic),
            produce_requests=produced.frames,
            produce_partitions=produced.partitions,
            produce_bytes=produced.size_bytes,
            produce_batches=produced.batches,
            produce_records=produced.records,
            fetch_replies=fetched.frames,
            fetch_partitions=fetched.partitions,
            fetch_bytes=fetched.size_bytes,
            fetch_batches=fetched.batches,
            fetch_records=fetched.records,
        )


def access_rows(
    sequencer: Sequencer, ts_ms: int, rights: Mapping[MissingRight, int]
) -> Iterator[AccessRow]:
    """Yield a row for each client and right of the second `ts_ms`."""
    for right, requests in rights.items():
        yield AccessRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=sequencer.next_seq("access"),
            ts_ms=ts_ms,
            user=cut_name(right.user),
            proof=right.proof,
            client_id=cut_name(right.client_id),
            policy=right.policy,
            kind=right.kind,
            name=None if right.name is None else cut_name(right.name),
            operation=right.operation,
            requests=requests,
        )


def capture_rows(sequencer: Sequencer, ended: Sequence[Seen]) -> Iterator[CaptureRow]:
    """Yield a row for each captured request in the order they ended."""
    for seen in ended:
        exchange = seen.exchange
        plan = exchange.plan
        peer, api = plan.peer, plan.api
        released = seen.released or ()
        yield CaptureRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=seen.number,
            ts_ms=seen.asked_ms // WINDOW_MS * WINDOW_MS,
            event=seen.event,
            now_ms=seen.asked_ms,
            session=peer.session_id,
            exchange=exchange.exchange_id,
            user=cut_name(peer.user),
            client_id=cut_name(peer.client_id),
            node=peer.node_id,
            api_key=api.key,
            api_version=api.version,
            acks=plan.acks,
            size_bytes=exchange.size_bytes,
            charged=not seen.is_exempt,
            verdict=seen.verdict,
            delay_ms=seen.delay_ms,
            released_event=[event for event, _ in released],
            released_ms=[at_ms for _, at_ms in released],
            replied_event=seen.replied_event,
            replied_ms=seen.replied_ms,
            reply_bytes=seen.reply_bytes,
            reply_throttle_time_ms=seen.reply_throttle_time_ms,
            reply_delay_ms=seen.reply_delay_ms,
            outcome=seen.outcome.value,
            ended_ms=seen.ended_ms,
        )


def cut_name(name: str) -> str:
    """Return a name that a client chose, cut to MAX_NAME_CHARS."""
    return name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS]
