"""Log lines: one event a line, stable snake_case names, never a payload byte or a credential.

Rules:
- Nothing per request. An event that storms (a port scanner, a broker that is down) is let through a few
  times a second and then counted: the next line that passes carries `suppressed`. This holds for every event of
  the process, also for what libraries log (`line_limits`).
- What is written never blocks and never raises (`sink`).
- `expired` storms by nature (a broker hangs, and everybody waits): at most one line a second, with how
  many there were of each kind since the last.
- A pool that runs dry under load does so many times a second: at most one line in ten seconds for each pool,
  with whether it is dry now, how many outages ended since the last line, and how long they took together.
- Text for people by default, JSON for machines on request; both on stderr, so that stdout stays free.
- The level may be changed at any time (`set_level`): loggers are made once, so it is looked at for each line.
"""

from __future__ import annotations

import errno
import logging
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import structlog

from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.telemetry.line_limits import LIMITS, TRACEBACK_MAX_CHARS, LineLimits, cut
from proxy.telemetry.stderr import NonBlockingStderr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from policies.api import Peer
    from policies.decision import PolicyDecision

_ORDINARY = frozenset(
    {
        CloseReason.CLIENT_CLOSED,
        CloseReason.BROKER_CLOSED,
        CloseReason.CLIENT_RESET,
        CloseReason.DRAINED,
    }
)
Level = Literal["debug", "info", "warning", "error"]
LINES_PER_SECOND = LIMITS["session_closed"].lines
"""Of one event; more are counted and not written."""
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
EXPIRED_EVERY_MS = 1000
POOL_EVERY_MS = 10_000
_EFFECTS = {
    "requests": "requests wait until memory is given back",
    "replies": "clients that do not read get little at a time",
}


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Threshold:
    """The least that is worth a line, and how many lines there may be."""

    level: Level = "info"
    number = logging.INFO
    limits = LineLimits(_monotonic_ms)


_threshold = _Threshold()


def set_level(level: Level) -> None:
    """From now on, for every logger of this process."""
    _threshold.level = level
    _threshold.number = logging.getLevelNamesMapping()[level.upper()]


def level() -> Level:
    """What holds now."""
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
        event[name] = cut(value, TRACEBACK_MAX_CHARS) if name == "exception" else cut(value)
    return event


def configure(
    level: Level, form: Literal["text", "json"], now_ms: Callable[[], int] | None = None
) -> None:
    """Set up structlog for this process. `now_ms`: what limits go by; the monotonic clock if not given."""
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
    if isinstance(sys.stderr, NonBlockingStderr):
        sys.stderr.notice = lambda lines: _shaped(shaping, lines)


def _shaped(shaping: Sequence[structlog.typing.Processor], lines: int) -> str:
    """The line that says how many were lost. It does not pass through the queue that lost them."""
    made: object = {"event": "log_lines_lost", "level": "warning", "lines": lines}
    for processor in shaping:
        made = processor(None, "warning", made)  # type: ignore[arg-type] # an event, until the last
    return f"{made}\n"


class _Libraries(logging.Handler):
    """What libraries log where nothing else was set up: Python would print it, tracebacks included, without limit."""

    def emit(self, record: logging.LogRecord) -> None:
        """As an event of ours, with its words and without its traceback."""
        with suppress(Exception):  # a library's own mistake: it must not end what it was doing
            tell_library(record)


def tell_library(record: logging.LogRecord) -> None:
    """One line for what a library logged."""
    log = structlog.get_logger()
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
        log.warning("file_descriptors_exhausted", detail=f"{record.name}: {error.strerror}")
    else:
        log.warning("library_message", logger=record.name, message=_printable(record.getMessage()))


def lines_lost() -> int:
    """How many lines standard error did not take since the start."""
    return sys.stderr.lines_lost if isinstance(sys.stderr, NonBlockingStderr) else 0


@dataclass(slots=True)
class _Outages:
    """Of one pool, since its last line (written at `told_ms`)."""

    told_ms: int = -POOL_EVERY_MS
    is_due: bool = False  # the next line has its time
    is_dry: bool = False
    times: int = 0  # how many are over
    depleted_ms: int = 0  # what those took


class LogObserver(Observer):
    """Writes what the core tells."""

    def __init__(
        self, now_ms: Callable[[], int], call_at: Callable[[int, Callable[[int], None]], None]
    ) -> None:
        self._log = structlog.get_logger()
        self._now_ms = now_ms
        self._call_at = call_at
        self._expired: Counter[str] = Counter()  # since the last line, by API
        self._expired_peer: Peer  # the last one's
        self._expired_ms = -EXPIRED_EVERY_MS  # when that line was written
        self._outages: defaultdict[str, _Outages] = defaultdict(_Outages)  # by pool

    @property
    def suppressed(self) -> Mapping[str, int]:
        """How many lines of which event were held back since the start."""
        return _threshold.limits.suppressed

    @property
    def lines_lost(self) -> int:
        """How many lines standard error did not take since the start."""
        return lines_lost()

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        if _threshold.number <= logging.DEBUG:  # else not worth putting together
            self._log.debug("session_opened", **_who(peer))

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """Ordinary ends at debug; an end that somebody should know of at warning."""
        if reason is CloseReason.FILE_DESCRIPTORS_EXHAUSTED:
            self.on_descriptors_exhausted(detail)
        elif reason in _ORDINARY:
            if _threshold.number <= logging.DEBUG:
                self._log.debug("session_closed", reason=reason.value, **_who(peer))
        else:
            self._warn("session_closed", reason=reason.value, detail=detail, **_who(peer))

    def on_bootstrap_closed(self, peer: Peer, address: str, likely: str) -> None:
        """See Observer. What stands there is asked by a command, not here."""
        self._warn(
            "bootstrap_closed",
            broker=address,
            likely=likely,
            mend="sluice check --connect says what stands there",
            **_who(peer),
        )

    def on_node_learned(self, node_id: int, host: str, port: int) -> None:
        """See Observer."""
        self._log.info("node_learned", node=node_id, address=f"{_printable(host)}:{port}")

    def on_unmapped_node(self, node_id: int) -> None:
        """See Observer."""
        self._warn(
            "unmapped_node",
            node=node_id,
            effect="advertised at the bootstrap port",
            mend="widen listen.nodes",
        )

    def on_expired(self, peer: Peer, api_name: str) -> None:
        """How many of each kind; the client named is the last one's."""
        waits = bool(self._expired)
        self._expired[api_name.lower()] += 1
        self._expired_peer = peer
        if not waits:
            due_ms = self._expired_ms + EXPIRED_EVERY_MS
            if self._now_ms() < due_ms:
                self._call_at(due_ms, self._tell_expired)
            else:
                self._tell_expired(self._now_ms())

    def on_pool_depleted(self, pool: str) -> None:
        """At once, if it is the first for a while."""
        self._outages[pool].is_dry = True
        self._note_outage(pool)

    def on_pool_recovered(self, pool: str, depleted_ms: int) -> None:
        """As rarely as its beginning."""
        outages = self._outages[pool]
        outages.is_dry = False
        outages.times += 1
        outages.depleted_ms += depleted_ms
        self._note_outage(pool)

    def on_connections_full(self, max_connections: int) -> None:
        """See Observer."""
        self._warn(
            "max_connections_reached",
            max_connections=max_connections,
            effect="further clients wait",
        )

    def on_descriptors_exhausted(self, detail: str) -> None:
        """See Observer; also for a broker that could not be dialled for that."""
        self._warn(
            "file_descriptors_exhausted", detail=detail, mend="raise the limit of open files"
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

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """See Observer."""
        about = {"api": api_name} if api_name else {}
        self._warn("policy_slow", policy=name, hook=hook, **about, took_ms=took_us / 1000)

    def on_slow_step(self, took_ms: int, policies: Sequence[str]) -> None:
        """See Observer."""
        self._warn("slow_step", took_ms=took_ms, policies=list(policies))

    def _tell_expired(self, now_ms: int) -> None:
        self._expired_ms = now_ms
        self._log.warning("requests_expired", **self._expired, **_who(self._expired_peer))
        self._expired.clear()

    def _note_outage(self, pool: str) -> None:
        outages = self._outages[pool]
        due_ms = outages.told_ms + POOL_EVERY_MS
        if outages.is_due:
            return
        if self._now_ms() < due_ms:
            outages.is_due = True
            self._call_at(due_ms, lambda now_ms: self._tell_outages(pool, now_ms))
        else:
            self._tell_outages(pool, self._now_ms())

    def _tell_outages(self, pool: str, now_ms: int) -> None:
        found = self._outages[pool]
        fields: dict[str, object] = {"pool": pool}
        if found.is_dry:
            fields["effect"] = _EFFECTS.get(pool, "")
        if found.times:
            fields |= {"times": found.times, "depleted_ms": found.depleted_ms}
        self._log.warning("pool_depleted" if found.is_dry else "pool_recovered", **fields)
        self._outages[pool] = _Outages(told_ms=now_ms, is_dry=found.is_dry)

    def _warn(self, event: str, **fields: object) -> None:
        """A storm must not even cost what it takes to shape a line."""
        if not _threshold.limits.is_full(event, fields):
            self._log.warning(event, **fields)


def _is_full(event: str, decision: PolicyDecision) -> bool:
    return _threshold.limits.is_full(event, {"policy": decision.policy})


def _ruled(decision: PolicyDecision) -> dict[str, object]:
    """The verdict's kind, error and reason, and whose request it was; what else it holds may be a payload."""
    said = {
        "api": decision.operation,
        "error": decision.error,
        "reason": _printable(decision.message),
    }
    fields: dict[str, object] = {"policy": decision.policy, "verdict": decision.kind}
    fields |= {name: text for name, text in said.items() if text}
    if decision.delay_ms:
        fields["delay_ms"] = decision.delay_ms
    return {**fields, "user": _printable(decision.peer.user), **_who(decision.peer)}


def _who(peer: Peer) -> dict[str, object]:
    return {
        "session": peer.session_id,
        "client": f"{peer.host}:{peer.port}",
        "client_id": _printable(peer.client_id),
        "node": "bootstrap" if peer.node_id is None else peer.node_id,
    }


def _printable(text: str) -> str:
    """A peer chooses its names: no control characters into a terminal, and no novels."""
    return "".join(c if c.isprintable() else "?" for c in text[:249])
