"""The JSON bodies of the admin server; the OpenAPI document is generated from these types.

Times are in milliseconds: points in time (`ts_ms`, since 1970, by the proxy's clock) or durations. Sizes are in bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from proxy.telemetry.decisions import Decision  # noqa: TC001 - msgspec reads annotations at run time
from proxy.telemetry.history import Point  # noqa: TC001 - as above
from proxy.telemetry.log import Level  # noqa: TC001 - as above

Count = Annotated[int, msgspec.Meta(ge=0)]
MAX_NAME_CHARS = 1024
MAX_SHOWN_NAME_CHARS = 249
"""Longer client ids are cut in listings. Kafka's limit for names."""


class LastReload(msgspec.Struct, frozen=True):
    """How the last reload ended."""

    ok: bool
    ts_ms: int


class Quantiles(msgspec.Struct, frozen=True):
    """Milliseconds; null without measurements."""

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
    """Muted connections by reason."""
    dropped: DroppedCounts
    trace_url: str


class BucketRow(msgspec.Struct, frozen=True):
    """The bucket of one quota, which several clients may share."""

    entity: str
    quota: str
    """request_rate, producer_byte_rate or consumer_byte_rate."""
    limit: float
    rate: float
    """Requests or bytes per second that passed, of all clients that share it; the limit is of the same unit."""
    used_percent: float
    """Percentage of the limit, 100 at most."""
    wait_ms: Count
    """How long a request that arrives now is held, or its client muted."""
    waiting: Count
    principals: Count  # of the listed clients


class PrincipalRow(msgspec.Struct, frozen=True):
    """One user and client id, in the last second. Those of one bucket are listed together."""

    user: str
    client_id: str
    connections: Count
    requests_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    latency_ms: Quantiles
    """Broker time of the last 30 to 60 seconds, without requests that wait there on purpose."""
    errors: Count
    """Requests that the broker did not answer, since the start."""
    bucket: Count | None
    """Index in `buckets` of the one that limits it first; null without a quota."""
    throttled_now: Count
    throttle_ms: Quantiles
    throttled: Count
    throttle_total_ms: Count


class Age(msgspec.Struct, frozen=True):
    """The number of requests that have waited longer than the previous bound, up to this one."""

    le_ms: int | None
    """null: without bound."""
    count: Count


class Outcomes(msgspec.Struct, frozen=True):
    """How the holds of requests ended, since the start."""

    condition: Count
    expired: Count
    drained: Count
    client_gone: Count
    broker_gone: Count
    closed: Count


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
    """The requests that wait, in Sluice or at a broker."""

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
    principal_source: str
    """Where the user comes from, as `policies.api.Peer.principal_source`."""
    proof: str
    """How the user was proved, as `policies.api.Peer.proof`; empty: not at all."""
    client_id: str
    client_tls: str
    """The TLS version and cipher between client and Sluice; empty: a plain connection."""
    broker_tls: str
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
    """One of Sluice's ports. `node` is null for bootstrap."""

    node: int | None
    port: int
    address: str
    """Empty if it is not known yet."""
    connections: Count
    answers_per_s: float | None = None
    """null: not measured yet."""
    latency_ms: Quantiles = Quantiles(None, None)
    bytes_in_per_s: float = 0.0
    """Bytes from clients to this broker."""
    bytes_out_per_s: float = 0.0
    heard_ago_ms: Count | None = None
    """Time since the broker's last byte; null: no connection, or no byte yet."""
    silent_ms: Count = 0
    """How long it has sent nothing while answers are due; 0 if it is not silent."""
    errors: Count = 0
    """Requests that it did not answer, since the start, like the next two counts."""
    dial_failures: Count = 0
    lost: Count = 0
    """Connections that it reset, or that ended because it sent no reply or an invalid one."""


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
    """The whole state, with fifteen minutes of history."""

    history: list[Point]


class Event(Overview, frozen=True):
    """The whole state, with the last second that has ended."""

    point: Point


class DecisionList(msgspec.Struct, frozen=True):
    """Recent decisions, the newest first."""

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
    origin: Literal["file", "quotas_file", "override"]


class QuotaList(msgspec.Struct, frozen=True):
    """All quotas. `rev` is the ETag, which changes with every change."""

    rev: str
    quotas: list[QuotaValue]


_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e15)]
_ByteRate = Annotated[int, msgspec.Meta(gt=0, le=10**15)]


class QuotaLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Live quotas to set, in requests or bytes per second. Those left out do not change."""

    request_rate: _Rate | None = None
    producer_byte_rate: _ByteRate | None = None
    consumer_byte_rate: _ByteRate | None = None


class LogLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lowest level that is logged."""

    level: Level


class RunningConfig(msgspec.Struct, frozen=True):
    """The settings in force without secrets, digests of files by path, and the key paths that a reload may change."""

    settings: msgspec.Raw
    files: dict[str, str]
    live: tuple[str, ...]


class PolicyState(msgspec.Struct, frozen=True):
    """The state of a policy, for operators: an object of the policy's own shape."""

    name: str
    state: msgspec.Raw


class Reloaded(msgspec.Struct, frozen=True):
    """The outcome of a reload. Nothing was changed unless `ok`."""

    ok: bool
    changed: list[str]
    """Settings that changed."""
    problems: list[str]


class Draining(msgspec.Struct, frozen=True):
    """The proxy drains and stops."""

    draining: bool


class Version(msgspec.Struct, frozen=True):
    """The version of Sluice and of Python, and a hash of the configuration."""

    version: str
    python: str
    config_hash: str


class HealthCheck(msgspec.Struct, frozen=True):
    """One condition of a probe."""

    name: str
    ok: bool
    detail: str


class Health(msgspec.Struct, frozen=True):
    """The answer to a probe; 200 if `ok`, also if `degraded`: some partitions do not work; else 503."""

    ok: bool
    degraded: bool
    checks: list[HealthCheck]


class Error(msgspec.Struct, frozen=True):
    """The reason of a refusal."""

    error: str
