"""The JSON bodies of the admin server; the OpenAPI document is generated from these types.

Times are milliseconds, of the clock the proxy goes by (`ts_ms`, since 1970) or of duration; sizes are bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from proxy.telemetry.decisions import Decision  # noqa: TC001 - msgspec reads annotations at run time
from proxy.telemetry.history import Point  # noqa: TC001 - as above
from proxy.telemetry.log import Level  # noqa: TC001 - as above

Count = Annotated[int, msgspec.Meta(ge=0)]
MAX_NAME_CHARS = 1024
NAME_SHOWN_MAX_CHARS = 249
"""Of a client id in a listing: Kafka's longest name."""


class LastReload(msgspec.Struct, frozen=True):
    """How the last reload ended."""

    ok: bool
    ts_ms: int


class Quantiles(msgspec.Struct, frozen=True):
    """Milliseconds; null: nothing was measured."""

    p50: float | None
    p99: float | None


class Pool(msgspec.Struct, frozen=True):
    """One memory pool."""

    name: str
    size_bytes: int | None
    """null: without bound."""
    used_bytes: int
    available_bytes: int
    depleted_percent: float
    depleted_ms: int


class DroppedCounts(msgspec.Struct, frozen=True):
    """Telemetry that was dropped since the start."""

    spans: Count
    usage_rows: Count


class Now(msgspec.Struct, frozen=True):
    """The process at this moment."""

    ts_ms: int
    version: str
    started_ms: int
    draining: bool
    config_hash: str
    last_reload: LastReload | None
    loop_lag_ms: Quantiles
    rss_bytes: Count
    memory_limit_bytes: int | None
    cpu_percent: float
    connections: Count
    requests_per_s: float
    pools: list[Pool]
    muted: dict[str, int]
    """Connections by the reason for which they are not read."""
    dropped: DroppedCounts
    trace_url: str


class BucketRow(msgspec.Struct, frozen=True):
    """One quota's bucket, which one client or several draw on."""

    entity: str
    quota: str
    """request_rate, producer_byte_rate or consumer_byte_rate."""
    limit: float
    """Per second: requests or bytes."""
    rate: float
    """Per second: what all of them were let through."""
    used_percent: float
    """Of the limit, 100 at most: then nothing more passes at this moment."""
    wait_ms: Count
    """How long a request that comes now is held, or its client is muted for."""
    waiting: Count
    """Requests that are held at this moment."""
    principals: Count
    """How many of those listed share it."""


class PrincipalRow(msgspec.Struct, frozen=True):
    """One user and client id, in the last second. Those of one bucket stand together."""

    user: str
    client_id: str
    connections: Count
    requests_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    latency_ms: Quantiles
    """Of the broker's answers, in the last half minute to minute; requests that wait there on purpose left out."""
    errors: Count
    """Requests that the broker did not answer, since the start."""
    bucket: Count | None
    """Which of `buckets` stops it first; null: no quota holds."""
    throttled_now: Count
    throttle_ms: Quantiles
    throttled: Count
    throttle_total_ms: Count


class Age(msgspec.Struct, frozen=True):
    """How many have waited for more than the bucket before, and no more than this."""

    le_ms: int | None
    """null: without bound."""
    count: Count


class Outcomes(msgspec.Struct, frozen=True):
    """How the waits of held requests ended, since the start."""

    condition: Count
    expired: Count
    drained: Count
    client_gone: Count


class Waiting(msgspec.Struct, frozen=True):
    """One request that waits."""

    session: int
    user: str
    client_id: str
    api: str
    kind: Literal["hold", "produce", "fetch"]
    age_ms: int
    waits_for: str


class PurgatoryState(msgspec.Struct, frozen=True):
    """Everything that waits, here or at a broker."""

    holds: Count
    produces: Count
    fetches: Count
    watched: Count
    timers: Count
    ages: list[Age]
    outcomes: Outcomes
    oldest: list[Waiting]


class ConnectionRow(msgspec.Struct, frozen=True):
    """One client and its broker."""

    id: int
    client: str
    user: str
    client_id: str
    node: int | None
    """null: the bootstrap port."""
    in_flight: Count
    client_unsent_bytes: Count
    broker_unsent_bytes: Count
    carry_bytes: Count
    muted: list[str]
    age_s: int | None


class ConnectionList(msgspec.Struct, frozen=True):
    """The newest connections are listed last."""

    total: Count
    connections: list[ConnectionRow]


class NodeRow(msgspec.Struct, frozen=True):
    """One of our ports. `node` null: bootstrap."""

    node: int | None
    port: int
    address: str
    """Empty: not known yet."""
    connections: Count
    answers_per_s: float | None = None
    """null: not measured yet."""
    latency_ms: Quantiles = Quantiles(None, None)
    bytes_in_per_s: float = 0.0
    """From clients, on their way to this broker."""
    bytes_out_per_s: float = 0.0
    heard_ago_ms: Count | None = None
    """Time since the broker's last byte; null: no connection, or no byte yet."""
    silent_ms: Count = 0
    """How long it has sent nothing although it owes answers; 0: it is not known to be silent."""
    errors: Count = 0
    """Requests that it did not answer, since the start, as are the next two."""
    dial_failures: Count = 0
    lost: Count = 0
    """Connections that it broke off, or that ended because it answered nothing or nonsense."""


class Overview(msgspec.Struct, frozen=True):
    """The fields that `State` and `Event` share."""

    now: Now
    principals: list[PrincipalRow]
    buckets: list[BucketRow]
    purgatory: PurgatoryState
    connections: list[ConnectionRow]
    connections_total: Count
    nodes: list[NodeRow]
    decisions: list[Decision]


class State(Overview, frozen=True):
    """Everything, with a quarter of an hour of history."""

    history: list[Point]


class Event(Overview, frozen=True):
    """Everything, with the second that ended last."""

    point: Point


class DecisionList(msgspec.Struct, frozen=True):
    """The newest first."""

    decisions: list[Decision]


class PoolList(msgspec.Struct, frozen=True):
    """Both memory pools."""

    pools: list[Pool]


class QuotaValue(msgspec.Struct, frozen=True):
    """One quota. `<default>` stands for all names without a quota of their own; null: any name."""

    user: str | None
    client_id: str | None
    quota: str
    per_second: float
    origin: Literal["file", "override"]


class QuotaList(msgspec.Struct, frozen=True):
    """`rev` is the ETag: it is another after every change."""

    rev: str
    quotas: list[QuotaValue]


class BucketUsage(msgspec.Struct, frozen=True):
    """Use of one limit. A bucket of all client ids, or of all users, has null there."""

    user: str | None
    client_id: str | None
    quota: str
    limit: float
    """Per second."""
    rate: float
    """Per second, over the last ten seconds."""
    throttle_avg_ms: float | None
    """Of the last minute; null: nothing was throttled."""
    throttle_max_ms: Count | None
    waiting: Count
    """Requests that are held at this moment."""


class QuotaUsage(msgspec.Struct, frozen=True):
    """The buckets in use, the busiest first. `total` counts those that are not listed too."""

    usage: list[BucketUsage]
    total: Count


_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e15)]
_ByteRate = Annotated[int, msgspec.Meta(gt=0, le=10**15)]


class QuotaLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Live quotas to set; what is left out stays as it is. Requests, bytes and bytes a second."""

    request_rate: _Rate | None = None
    producer_byte_rate: _ByteRate | None = None
    consumer_byte_rate: _ByteRate | None = None


class LogLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lowest level that is logged."""

    level: Level


class Reloaded(msgspec.Struct, frozen=True):
    """The outcome of a reload. Nothing was changed unless `ok`."""

    ok: bool
    changed: list[str]
    """Settings that changed."""
    problems: list[str]


class Draining(msgspec.Struct, frozen=True):
    """The proxy is going down."""

    draining: bool


class TaskGroup(msgspec.Struct, frozen=True):
    """Tasks that wait at the same place. `stack`: the innermost call last."""

    count: Count
    names: list[str]
    stack: list[str]


class TaskList(msgspec.Struct, frozen=True):
    """The tasks of the event loop, the largest group first."""

    ts_ms: int
    total: Count
    listed: Count
    runnable: Count
    groups: list[TaskGroup]


class Version(msgspec.Struct, frozen=True):
    """The version of Sluice and of Python, and a hash of the configuration."""

    version: str
    python: str
    config_hash: str


class HealthCheck(msgspec.Struct, frozen=True):
    """One thing that a probe looks at."""

    name: str
    ok: bool
    detail: str


class Health(msgspec.Struct, frozen=True):
    """The answer to a probe; 200 if `ok`, else 503."""

    ok: bool
    checks: list[HealthCheck]


class Error(msgspec.Struct, frozen=True):
    """Why not."""

    error: str
