"""All metrics in one table, for the page, the push and the authors of alerts.

Rules:
- Prometheus' conventions: base units (seconds, bytes), counters end in `_total`. `process_*` are the names that
  every client library uses; everything else begins with `sluice_`.
- Where Kafka has a sensor or an MBean for the same thing, the help text names it.
- The values of labels are closed sets, except `user` (see `users`) and those of quota entities (see `quota_entities`).
- Metrics that policies define are not in the table (see `custom`).
- The edges of a histogram are powers of two in microseconds, because every eighth bucket of the core's histograms
  ends at one (`proxy.core.stats.histogram`), so no count moves to another bucket.
"""

from __future__ import annotations

from proxy.telemetry.metrics.families import Metric, MetricKind

_COUNTER, _GAUGE, _HISTOGRAM, _INFO = MetricKind
_S, _B = "seconds", "bytes"

# -- requests ------------------------------------------------------------------------------------

REQUESTS = Metric(
    "sluice_requests_total",
    _COUNTER,
    "Requests that have ended: replied (by the broker), no_reply (acks=0), answered (by a policy), expired (answered "
    "by Sluice at the deadline), disconnected. Kafka: RequestMetrics RequestsPerSec, ErrorsPerSec.",
    ("api", "outcome"),
)
STAGE = Metric(
    "sluice_request_stage_seconds",
    _HISTOGRAM,
    "Waiting time of requests: receive (for their last byte), memory, throttle (for a quota), purgatory (for a "
    "policy), upstream (from their last byte sent to the broker to the last byte of the reply). The sum is exact "
    "to a few per cent. Kafka: RequestMetrics RequestQueueTimeMs, ThrottleTimeMs, RemoteTimeMs, TotalTimeMs.",
    ("api", "stage"),
    _S,
    range(7, 28),
)
STEP = Metric(
    "sluice_event_loop_step_seconds",
    _HISTOGRAM,
    "Duration of a step of the event loop, of which one in sixteen is measured.",
    (),
    _S,
    range(4, 22),
)
AWAY = Metric(
    "sluice_event_loop_pause_seconds",
    _HISTOGRAM,
    "Duration of the pauses of the event loop for other tasks (the admin server, new connections).",
    (),
    _S,
    range(4, 22),
)
EXEMPT = Metric(
    "sluice_exempt_requests_total",
    _COUNTER,
    "Requests that no quota counts. Kafka: exempt-request-time (KIP-124).",
)

# -- users ---------------------------------------------------------------------------------------

_USER = ("user",)
USER_REQUESTS = Metric(
    "sluice_user_requests_total",
    _COUNTER,
    "Requests by user; those without a series of their own are `other`. Kafka: request-time (KIP-124).",
    _USER,
)
USER_THROTTLED = Metric(
    "sluice_user_throttled_requests_total",
    _COUNTER,
    "Requests or replies of a user that a quota delayed.",
    _USER,
)
USER_THROTTLE_SECONDS = Metric(
    "sluice_user_throttle_seconds_total",
    _COUNTER,
    "Time that quotas delayed a user, summed over connections. Kafka: throttle-time (KIP-124).",
    _USER,
    _S,
)
USER_REQUEST_BYTES = Metric(
    "sluice_user_request_bytes_total",
    _COUNTER,
    "Bytes of a user's requests on the wire. Kafka: byte-rate of Produce (KIP-13).",
    _USER,
    _B,
)
USER_RESPONSE_BYTES = Metric(
    "sluice_user_response_bytes_total",
    _COUNTER,
    "Bytes of the replies to a user on the wire. Kafka: byte-rate of Fetch (KIP-13).",
    _USER,
    _B,
)
USER_RATE = Metric(
    "sluice_user_requests_per_second",
    _GAUGE,
    "Requests of a user in the last second that has ended.",
    _USER,
)
USER_QUOTA = Metric(
    "sluice_user_quota_requests_per_second",
    _GAUGE,
    "Request quota of a user, in requests per second. Kafka: request_percentage (KIP-124).",
    _USER,
)
_QUOTA = ("policy", "user", "client_id", "quota")
QUOTA_RATE = Metric(
    "sluice_quota_rate",
    _GAUGE,
    "Requests or bytes per second of a quota entity, in its window. Kafka: request-rate, byte-rate (KIP-124).",
    _QUOTA,
)
QUOTA_LIMIT = Metric(
    "sluice_quota_limit",
    _GAUGE,
    "The limit of a quota entity, in requests or bytes per second. Kafka: the quota of the sensor.",
    _QUOTA,
)
QUOTA_THROTTLE_AVG = Metric(
    "sluice_quota_throttle_avg_seconds",
    _GAUGE,
    "Mean delay of a quota entity's throttled requests, in the last minute. Kafka: throttle-time (KIP-124).",
    _QUOTA,
    _S,
)
QUOTA_THROTTLE_MAX = Metric(
    "sluice_quota_throttle_max_seconds",
    _GAUGE,
    "The largest of these delays. Clients of Kafka have it as request-throttle-time-max (KIP-124).",
    _QUOTA,
    _S,
)
QUOTA_HIDDEN = Metric(
    "sluice_quota_entities_hidden",
    _GAUGE,
    "Quota entities without series of their own, because there are more than metrics.max_quota_entities.",
)

# -- memory --------------------------------------------------------------------------------------

_POOL = ("pool",)
POOL_SIZE = Metric(
    "sluice_pool_size_bytes", _GAUGE, "The size of the pool; none if it is unbounded.", _POOL, _B
)
POOL_USED = Metric(
    "sluice_pool_used_bytes",
    _GAUGE,
    "Bytes held for requests or for replies. Kafka: MemoryPoolUsed (KIP-72).",
    _POOL,
    _B,
)
POOL_AVAILABLE = Metric(
    "sluice_pool_available_bytes",
    _GAUGE,
    "Bytes left, negative if overdrawn; none if the pool is unbounded. Kafka: MemoryPoolAvailable (KIP-72).",
    _POOL,
    _B,
)
POOL_DEPLETED = Metric(
    "sluice_pool_depleted_seconds_total",
    _COUNTER,
    "Time in which the pool was depleted. Kafka: MemoryPoolDepletedTimeTotal (KIP-72).",
    _POOL,
    _S,
)
POOL_DEPLETED_RATIO = Metric(
    "sluice_pool_depleted_ratio",
    _GAUGE,
    "The share of the last 30 seconds in which the pool was depleted. Kafka: MemoryPoolAvgDepletedPercent (KIP-72).",
    _POOL,
    "ratio",
)

# -- waiting requests ----------------------------------------------------------------------------

_PURGATORY = ("purgatory",)
PURGATORY_SIZE = Metric(
    "sluice_purgatory_size",
    _GAUGE,
    "Watched entries: hold (requests that a policy holds), produce (acks=all), fetch (that may wait). Kafka: "
    "DelayedOperationPurgatory PurgatorySize.",
    _PURGATORY,
)
PURGATORY_DELAYED = Metric(
    "sluice_purgatory_delayed_operations",
    _GAUGE,
    "Requests that wait. Kafka: DelayedOperationPurgatory NumDelayedOperations.",
    _PURGATORY,
)
PURGATORY_OLDEST = Metric(
    "sluice_purgatory_oldest_seconds",
    _GAUGE,
    "Waiting time of the oldest of them; 0 if none waits.",
    _PURGATORY,
    _S,
)
PURGATORY_COMPLETIONS = Metric(
    "sluice_purgatory_completions_total",
    _COUNTER,
    "Holds that have ended: condition (woken), expired, drained, client_gone, broker_gone, closed (by Sluice).",
    ("reason",),
)
PURGATORY_SECONDS = Metric(
    "sluice_purgatory_seconds",
    _HISTOGRAM,
    "Waiting time of requests that a policy held, by the end of the hold (condition: it was woken), or that Sluice "
    "answered in the place of the broker (expired, drained). For replies of the broker see stage upstream.",
    ("api", "outcome"),
    _S,
    range(7, 28),
)
TIMERS = Metric("sluice_timer_entries", _GAUGE, "Entries on the timing wheel.")
EXPIRATIONS = Metric(
    "sluice_expirations_total",
    _COUNTER,
    "Requests that Sluice answered at their deadline in the broker's place. Kafka: DelayedOperation ExpiresPerSec.",
    ("api",),
)
CLAMPED = Metric(
    "sluice_clamped_waits_total",
    _COUNTER,
    "Kinds of requests, over all connections, whose timeout was longer than purgatory.max_wait_ms.",
)

# -- connections ---------------------------------------------------------------------------------

CONNECTIONS = Metric(
    "sluice_connections", _GAUGE, "Open client connections. Kafka: connection-count."
)
UNAUTHENTICATED = Metric(
    "sluice_connections_unauthenticated",
    _GAUGE,
    "Client connections in TLS handshakes, that have sent no request yet, or whose authentication is not complete: "
    "those that limits.max_unauthenticated_connections counts. sluice_connections counts them after their handshakes.",
)
OPENED = Metric(
    "sluice_connections_opened_total",
    _COUNTER,
    "Client connections that were accepted. Kafka: connection-creation-total.",
)
CLOSED = Metric(
    "sluice_connections_closed_total",
    _COUNTER,
    "Client connections that have ended or were refused, by reason. Kafka: connection-close-total.",
    ("reason",),
)
MUTED = Metric(
    "sluice_connections_muted",
    _GAUGE,
    "Client connections that are not read from, by reason; one may have several. Kafka: MuteState (KIP-124).",
    ("reason",),
)
DIAL_FAILURES = Metric(
    "sluice_upstream_dial_failures_total",
    _COUNTER,
    "Failed connections to brokers.",
    ("reason",),
)
AUTH_FAILURES = Metric(
    "sluice_authentication_failures_total",
    _COUNTER,
    "SASL exchanges that a broker, or Sluice itself, refused. Kafka: failed-authentication-total.",
)
TOKEN_KEYS_TIME = Metric(
    "sluice_token_keys_loaded_timestamp_seconds",
    _GAUGE,
    "When the keys for clients' tokens (listen.sasl.oauthbearer.jwks) were loaded or found unchanged; 0: never.",
    (),
    _S,
)
TOKEN_KEYS_FAILURES = Metric(
    "sluice_token_keys_failures_total",
    _COUNTER,
    "Attempts to load these keys that failed.",
)
UNMAPPED = Metric(
    "sluice_unmapped_nodes_total",
    _COUNTER,
    "Brokers seen outside the declared range; they are advertised at the bootstrap port.",
)

REMOVED_VERSIONS = Metric(
    "sluice_removed_versions_total",
    _COUNTER,
    "Uses of a version that a release of Kafka removed (KIP-896), which newer brokers answer by closing: one for each "
    "connection, API and version. Kafka: DeprecatedRequestsPerSec.",
    ("api", "version"),
)

# -- faults --------------------------------------------------------------------------------------

HANDSHAKES_FAILED = Metric(
    "sluice_tls_handshakes_failed_total",
    _COUNTER,
    "Clients of a TLS port without a session, because their handshake failed.",
)

INTERNAL_ERRORS = Metric(
    "sluice_internal_errors_total", _COUNTER, "Sessions ended by a bug of Sluice."
)
POLICY_ERRORS = Metric(
    "sluice_policy_errors_total",
    _COUNTER,
    "Calls of a policy's hooks that raised an exception.",
    ("policy", "hook"),
)
_HOOK = ("policy", "hook")
HOOK_CALLS = Metric(
    "sluice_policy_hook_calls_total",
    _COUNTER,
    "Measured calls of a policy's hooks: all, except that on_request, on_response and on_complete are measured for "
    "one connection in sixteen, and for every connection for ten seconds after a slow step.",
    _HOOK,
)
HOOK_SECONDS = Metric(
    "sluice_policy_hook_seconds_total",
    _COUNTER,
    "Duration of the measured calls. Divided by their number: the mean time of the hook.",
    _HOOK,
    _S,
)
SLOW_HOOKS = Metric(
    "sluice_policy_slow_hooks_total",
    _COUNTER,
    "Measured calls that took 5 ms or more; every client waited for them.",
    _HOOK,
)
POLICY_OBSERVED = Metric(
    "sluice_policy_observed_total",
    _COUNTER,
    "Requests that a policy in mode `observe` would have refused (reject), answered (respond), delayed (throttle, "
    "hold) or changed (change). The api is `connect` for clients refused before their first request.",
    ("policy", "verdict", "api"),
)
POLICY_REFUSED = Metric(
    "sluice_policy_refused_total",
    _COUNTER,
    "Requests that a policy has refused: with an error reply (reject), or by closing the connection (close). The api "
    "is `connect` for clients that were refused before their first request.",
    ("policy", "verdict", "api"),
)

# -- the process ---------------------------------------------------------------------------------

SPANS_DROPPED = Metric("sluice_spans_dropped_total", _COUNTER, "Spans that were not exported.")
USAGE_ROWS_DROPPED = Metric(
    "sluice_usage_log_rows_dropped_total", _COUNTER, "Rows of the usage log that were not written."
)
LOG_SUPPRESSED = Metric(
    "sluice_log_lines_suppressed_total",
    _COUNTER,
    "Log lines that were suppressed because there were too many of the event, by event.",
    ("event",),
)
LOG_LINES_LOST = Metric(
    "sluice_log_lines_lost_total",
    _COUNTER,
    "Log lines that standard error refused: a pipe that is not read, a full disk.",
)
AUDIT_LOST = Metric(
    "sluice_audit_lines_lost_total",
    _COUNTER,
    "Lines that are missing from the audit log: disk (full or too slow), rate (more than a hundred lines in a second "
    "for one user at one address).",
    ("reason",),
)
PUSHES = Metric(
    "sluice_metrics_pushes_total", _COUNTER, "Pushes of these metrics by OTLP.", ("result",)
)
RELOADS = Metric(
    "sluice_config_reloads_total", _COUNTER, "Reloads of the configuration.", ("result",)
)
RELOAD_OK = Metric(
    "sluice_config_last_reload_successful",
    _GAUGE,
    "Whether the last reload succeeded; none before the first.",
)
RELOAD_TIME = Metric(
    "sluice_config_last_reload_timestamp_seconds",
    _GAUGE,
    "When the configuration in force was loaded.",
    (),
    _S,
)
CERTIFICATE_EXPIRY = Metric(
    "sluice_certificate_expiry_timestamp_seconds",
    _GAUGE,
    "When Sluice's own certificate ends, by side: listen (for clients), upstream (for brokers).",
    ("side",),
    _S,
)
DRAINING = Metric("sluice_draining", _GAUGE, "Whether the process is going down.")
FEATURE = Metric(
    "sluice_feature_enabled",
    _GAUGE,
    "Whether a feature is on, and how mature it is.",
    ("name", "stage"),
)
BUILD = Metric("sluice_build_info", _INFO, "What runs here.", ("version", "python"))
DRIFT = Metric(
    "sluice_clock_drift_seconds",
    _GAUGE,
    "How far the wall clock has moved from the clock of Sluice since start.",
    (),
    _S,
)
RSS = Metric("process_resident_memory_bytes", _GAUGE, "Resident memory size.", (), _B)
CPU = Metric("process_cpu_seconds_total", _COUNTER, "User and system CPU time spent.", (), _S)
OPEN_FDS = Metric("process_open_fds", _GAUGE, "Open file descriptors.")
MAX_FDS = Metric("process_max_fds", _GAUGE, "The most file descriptors that may be open.")
STARTED = Metric(
    "process_start_time_seconds", _GAUGE, "When the process began, in Unix time.", (), _S
)

ALL: tuple[Metric, ...] = tuple(each for each in globals().values() if isinstance(each, Metric))
"""All metrics, in the order of the table."""
