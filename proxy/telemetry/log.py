"""Log lines: one event per line, stable snake_case names, never a payload byte or a credential.

Rules:
- No event per request. Each event has a limit of lines per second; further lines are counted, and the next line has
  their number in `suppressed`. This includes the lines of libraries (`line_limits`). If no next line comes, a line
  `log_lines_suppressed` has the counts, at the latest at the end of the process.
- Writing never blocks and never raises (`stderr`).
- `requests_expired` is written once per second at most, with the number of requests of each kind since the last line.
- Text by default, JSON on request; both on standard error.
- The level can change at any time (`set_level`), so it is read for each line.
"""

from __future__ import annotations

import errno
import logging
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import structlog

from proxy.core.errors import ORDINARY, CloseReason
from proxy.core.observer import Observer
from proxy.host_port import host_port
from proxy.telemetry.escaping import printable
from proxy.telemetry.line_limits import LIMITS, MAX_TRACEBACK_CHARS, LineLimits, cut
from proxy.telemetry.message_fields import message_fields
from proxy.telemetry.pool_outages import PoolOutages
from proxy.telemetry.removed_versions import RemovedVersions
from proxy.telemetry.slow_work import SlowWork
from proxy.telemetry.stderr import NonBlockingWriter
from wire.apis import kept_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel
    from proxy.core.stats.usage import UsageRow
    from wire.apis import Api

_ORDINARY = ORDINARY | {CloseReason.BROKER_CLOSED}
Level = Literal["debug", "info", "warning", "error"]
LINES_PER_SECOND = LIMITS["session_closed"].lines
"""Lines of one event; further ones are counted and not written."""
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
EXPIRED_EVERY_MS = 1000
_KIPS: Final = {"4.0": " (KIP-896)"}


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _cpu_ms() -> float:
    return time.thread_time() * 1000


class _Threshold:
    """The level, and the limits of lines."""

    level: Level = "info"
    number = logging.INFO
    limits = LineLimits(_monotonic_ms)


_threshold = _Threshold()


def set_level(level: Level) -> None:
    """Set the level of every logger of this process."""
    _threshold.level = level
    _threshold.number = logging.getLevelNamesMapping()[level.upper()]


def level() -> Level:
    """Return the current level."""
    return _threshold.level


def _drop_below(
    _: object, method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    if structlog.processors.NAME_TO_LEVEL[method] < _threshold.number:
        raise structlog.DropEvent
    return event


def _limit(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    name = str(event["event"])
    limits = _threshold.limits
    if limits.is_full(name, event):
        raise structlog.DropEvent
    if suppressed := limits.pass_one(name, event):
        event["suppressed"] = suppressed
    return event


def _cut(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    for name, value in event.items():
        event[name] = cut(value, MAX_TRACEBACK_CHARS) if name == "exception" else cut(value)
    return event


def configure(
    level: Level, form: Literal["text", "json"], now_ms: Callable[[], int] | None = None
) -> None:
    """Configure structlog for this process. `now_ms` is the clock of the limits, by default the monotonic one."""
    set_level(level)
    _threshold.limits = LineLimits(now_ms or _monotonic_ms)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # rich's would print local variables
            timestamp_key="ts",
        )
    )
    shaping: list[structlog.typing.Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        _cut,
        renderer,
    ]
    structlog.configure(
        processors=[_drop_below, structlog.processors.add_log_level, _limit, *shaping],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.lastResort = _Libraries(logging.WARNING)
    if isinstance(sys.stderr, NonBlockingWriter):
        sys.stderr.notice = lambda lines: _shaped(shaping, lines)


def tell_suppressed(*, unfinished: bool = False) -> bool:
    """Log the counts that no later line has told; return whether some are kept until their period ends."""
    counts, is_more = _threshold.limits.take_counts(unfinished=unfinished)
    if counts:
        structlog.get_logger().warning("log_lines_suppressed", lines=counts)
    return is_more


def _shaped(shaping: Sequence[structlog.typing.Processor], lines: int) -> str:
    """Return the line with the number of lost lines. It does not pass through the queue that lost them."""
    made: object = {"event": "log_lines_lost", "level": "warning", "lines": lines}
    for processor in shaping:
        made = processor(None, "warning", made)  # type: ignore[arg-type] # an event, until the last
    return f"{made}\n"


class _Libraries(logging.Handler):
    """Logs the records of libraries. Without it Python would print them with tracebacks and without a limit."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event, with its message and without its traceback."""
        with suppress(Exception):  # an invalid record must not raise in the library
            log_library_record(record)


def log_library_record(record: logging.LogRecord) -> None:
    """Write one line for the record of a library."""
    log = structlog.get_logger()
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
        log.warning("file_descriptors_exhausted", detail=f"{record.name}: {error.strerror}")
    else:
        log.warning("library_message", logger=record.name, message=printable(record.getMessage()))


def lines_lost() -> int:
    """Return how many lines standard error has refused since the start."""
    return sys.stderr.lines_lost if isinstance(sys.stderr, NonBlockingWriter) else 0


class LogObserver(Observer):
    """Logs the reports of the core. `note` is called when a line was suppressed; `tell_suppressed` has the count."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        call_at: Callable[[int, Callable[[int], None]], None],
        note: Callable[[], None] | None = None,
    ) -> None:
        _threshold.limits.on_suppressed = note
        self._slow = SlowWork(now_ms, call_at, _cpu_ms)
        self._log = structlog.get_logger()
        self._now_ms = now_ms
        self._call_at = call_at
        self._expired: Counter[str] = Counter()  # since the last line, by API
        self._expired_peer: Peer  # the last one's
        self._expired_ms = -EXPIRED_EVERY_MS  # when that line was written
        self._outages = PoolOutages(now_ms, call_at)
        self._removed_versions = RemovedVersions()

    @property
    def suppressed(self) -> Mapping[str, int]:
        """Return how many lines were suppressed since the start, by event."""
        return _threshold.limits.suppressed

    @property
    def lines_lost(self) -> int:
        """Return how many lines standard error has refused since the start."""
        return lines_lost()

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        if _threshold.number <= logging.DEBUG:  # else its fields need not be made
            self._log.debug("session_opened", **_client(peer))

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer. Ordinary ends are logged at debug, others at warning."""
        if reason is CloseReason.FILE_DESCRIPTORS_EXHAUSTED:
            self.on_descriptors_exhausted(detail)
        elif reason in _ORDINARY:
            if _threshold.number <= logging.DEBUG:
                self._log.debug("session_closed", reason=reason.value, **_client(peer))
        else:
            self._warn("session_closed", reason=reason.value, detail=detail, **_client(peer))

    def on_handshake_failed(self, host: str, port: int, detail: str) -> None:
        """See Observer."""
        self._warn("handshake_failed", client=host_port(host, port), reason=printable(detail))

    def on_bootstrap_closed(self, peer: Peer, address: str, likely: str) -> None:
        """See Observer. `sluice check --connect` finds out more about the server."""
        self._warn(
            "bootstrap_closed",
            broker=address,
            likely=likely,
            hint="sluice check --connect shows what answers there",
            **_client(peer),
        )

    def on_node_learned(self, node_id: int, host: str, port: int) -> None:
        """See Observer."""
        self._log.info("node_learned", node=node_id, address=host_port(printable(host), port))

    def on_unmapped_node(self, node_id: int) -> None:
        """See Observer."""
        self._warn(
            "unmapped_node",
            node=node_id,
            effect="advertised at the bootstrap port",
            hint="widen listen.nodes",
        )

    def on_expired(self, peer: Peer, api_name: str) -> None:
        """See Observer. The line counts each kind and names the latest client."""
        waits = bool(self._expired)
        self._expired[api_name.lower()] += 1
        self._expired_peer = peer
        if not waits:
            due_ms = self._expired_ms + EXPIRED_EVERY_MS
            if self._now_ms() < due_ms:
                self._call_at(due_ms, self._log_expired)
            else:
                self._log_expired(self._now_ms())

    def on_removed_version(self, peer: Peer, api: Api) -> None:
        """See Observer. Each client id, API and version has a line a minute."""
        if self._removed_versions.is_new(peer, api, self._now_ms()):
            lowest, highest = kept_versions(api.key)
            self._warn(
                "removed_version",
                api=api.name,
                version=api.version,
                removed_in=f"Kafka {api.removed_in}{_KIPS.get(api.removed_in, '')}",
                use=f"{lowest} to {highest}",
                effect="later brokers close the connection",
                **_client(peer),
            )

    def on_pool_depleted(self, pool: str) -> None:
        """See Observer. The first in ten seconds is logged at once."""
        self._outages.on_depleted(pool)

    def on_pool_recovered(self, pool: str, depleted_ms: int) -> None:
        """See Observer. Logged as rarely as the depletion."""
        self._outages.on_recovered(pool, depleted_ms)

    def on_accept_delayed(self, limit: str, value: int) -> None:
        """See Observer."""
        self._warn("accept_delayed", limit=limit, value=value, effect="further clients wait")

    def on_descriptors_exhausted(self, detail: str) -> None:
        """See Observer. Also called if a broker could not be dialled for that reason."""
        self._warn(
            "file_descriptors_exhausted", detail=detail, hint="raise the limit of open files"
        )

    def on_internal_error(self, error: BaseException) -> None:
        """See Observer."""
        self._warn("internal_error", exc_info=error)

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """See Observer."""
        self._warn("policy_error", policy=name, hook=hook, exc_info=error)

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer."""
        if not _is_full("policy_observed", decision):
            self._log.warning("policy_observed", **_ruled(decision))

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer."""
        if not _is_full("policy_refused", decision):
            self._log.warning("policy_refused", **_ruled(decision))

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """See Observer."""
        if structlog.processors.NAME_TO_LEVEL[level] < _threshold.number:
            return
        if _threshold.limits.is_full("policy_message", {"policy": name, "level": level}):
            return
        line = {"policy": name, **message_fields(message, fields)}
        match level:
            case "debug":
                self._log.debug("policy_message", **line)
            case "info":
                self._log.info("policy_message", **line)
            case "warning":
                self._log.warning("policy_message", **line)
            case "error":
                self._log.error("policy_message", **line)

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """See Observer. Summed up (`slow_work`)."""
        self._slow.add_hook(name, hook, api_name, took_us / 1000)

    def on_slow_step(self, took_ms: int, policies: Sequence[str]) -> None:
        """See Observer. Summed up (`slow_work`)."""
        self._slow.add_step(took_ms, policies)

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        self._slow.on_second()

    def close(self, _timeout_s: float) -> None:
        """Log what is summed up or was suppressed, and not told yet. Waits for nothing."""
        self._slow.close()
        if self._expired:
            self._log_expired(self._now_ms())
        self._outages.close()
        tell_suppressed(unfinished=True)

    def _log_expired(self, now_ms: int) -> None:
        if not self._expired:  # `close` has told them
            return
        self._expired_ms = now_ms
        self._log.warning("requests_expired", **self._expired, **_client(self._expired_peer))
        self._expired.clear()

    def _warn(self, event: str, **fields: object) -> None:
        """Log a warning unless its event is beyond its limit: a suppressed line must cost little."""
        if not _threshold.limits.is_full(event, fields):
            self._log.warning(event, **fields)


def _is_full(event: str, decision: PolicyDecision) -> bool:
    return _threshold.limits.is_full(event, {"policy": decision.policy})


def _ruled(decision: PolicyDecision) -> dict[str, object]:
    """Return the kind, error and reason of the verdict, and the client; its other fields may be payload."""
    said = {
        "api": decision.operation,
        "error": decision.error,
        "reason": printable(decision.message),
    }
    fields: dict[str, object] = {"policy": decision.policy, "verdict": decision.kind}
    fields |= {name: text for name, text in said.items() if text}
    if decision.delay_ms:
        fields["delay_ms"] = decision.delay_ms
    return {**fields, "user": printable(decision.peer.user), **_client(decision.peer)}


def _client(peer: Peer) -> dict[str, object]:
    """Return the members that say who the client is; a user that is proved is named, with the proof."""
    proved = {"user": printable(peer.user), "proof": peer.proof} if peer.proof else {}
    return {
        **proved,
        "session": peer.session_id,
        "client": host_port(peer.host, peer.port),
        "client_id": printable(peer.client_id),
        "node": "bootstrap" if peer.node_id is None else peer.node_id,
    }
