"""Reads all counters into families of metrics, without changing them.

On the loop it takes about a millisecond, and one more per thousand connections. `requests` runs on another thread.
"""

from __future__ import annotations

import platform
from itertools import accumulate
from typing import TYPE_CHECKING

from policies.api import Outcome
from policies.custom_metrics import HistogramSeries
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange
from proxy.core.session.mutes import mute_reasons
from proxy.core.stats.meters import STAGES, summed
from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.families import (
    Distribution,
    Family,
    Metric,
    MetricKind,
    MetricPoint,
    distribution,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from policies.chain import Entry
    from policies.custom_metrics import MetricSpec
    from policies.hook_runner import HookTime
    from proxy.core.engine import Engine
    from proxy.core.stats.meters import Meter, MeterBook
    from proxy.telemetry.facts import Facts
    from proxy.telemetry.metrics.families import Exemplars, Wait
    from proxy.telemetry.metrics.users import Tally, UserSeries


_MUTES = {getattr(Mute, name): name.lower() for name in vars(Mute) if not name.startswith("_")}
_DIAL_FAILURES = (
    CloseReason.UPSTREAM_REFUSED,
    CloseReason.UPSTREAM_DIAL_TIMEOUT,
    CloseReason.BROKER_TLS,
    CloseReason.UPSTREAM_AUTHENTICATION_FAILED,
    CloseReason.UNKNOWN_NODE,
)

_USER_COUNTS: tuple[tuple[Metric, Callable[[Tally], float]], ...] = (
    (names.USER_REQUESTS, lambda tally: tally.requests),
    (names.USER_THROTTLED, lambda tally: tally.throttled),
    (names.USER_THROTTLE_SECONDS, lambda tally: tally.throttle_ms / 1000),
    (names.USER_REQUEST_BYTES, lambda tally: tally.request_bytes),
    (names.USER_RESPONSE_BYTES, lambda tally: tally.response_bytes),
)


def single(metric: Metric, value: float) -> Family:
    """Return a metric without labels."""
    return Family(metric, (MetricPoint((), value),))


def labelled(metric: Metric, values: Mapping[str, float]) -> Iterator[Family]:
    """Yield a metric with one label; no family if there are no values."""
    if values:
        yield Family(metric, [MetricPoint((label,), value) for label, value in values.items()])


def hooks(times: Mapping[tuple[str, str], HookTime]) -> Iterator[Family]:
    """Yield the times of the policies' hooks."""
    if times:
        found = list(times.items())
        yield Family(names.HOOK_CALLS, [MetricPoint(key, each.calls) for key, each in found])
        yield Family(
            names.HOOK_SECONDS, [MetricPoint(key, each.took_us / 1e6) for key, each in found]
        )
        yield Family(
            names.SLOW_HOOKS, [MetricPoint(key, each.slow) for key, each in found if each.slow]
        )


def requests(meters: Iterable[Meter], exemplars: Mapping[Wait, Exemplars]) -> Iterator[Family]:
    """Yield the counts of the meters. A usage log by API has tens of thousands of them, too many for the loop."""
    counts = []
    stages = []
    parked = []
    for meter in summed(meters):
        upstream = distribution(meter.upstream, names.STAGE.edges)
        for outcome in Outcome:
            count = upstream.total if outcome is Outcome.REPLIED else meter.outcomes[outcome]
            if count:
                counts.append(MetricPoint((meter.name, outcome.value), count))
        for stage in STAGES:
            waits = meter.waits.get(stage)
            if waits is not None:
                found = exemplars.get((meter.name, stage))
                value = distribution(waits, names.STAGE.edges, found)
                stages.append(MetricPoint((meter.name, stage), value))
        for ending, waits in meter.parked.items():
            value = distribution(waits, names.PURGATORY_SECONDS.edges)
            parked.append(MetricPoint((meter.name, ending), value))
        if upstream.total:
            stages.append(MetricPoint((meter.name, "upstream"), upstream))
    if counts:
        yield Family(names.REQUESTS, counts)
    if stages:
        yield Family(names.STAGE, stages)
    if parked:
        yield Family(names.PURGATORY_SECONDS, parked)


def turns(book: MeterBook) -> Iterator[Family]:
    """Yield the durations of the loop's turns and of the pauses between them."""
    for metric, counts in ((names.STEP, book.step_us), (names.AWAY, book.away_us)):
        yield Family(metric, (MetricPoint((), distribution(counts, metric.edges)),))


def users(
    every_series: list[UserSeries], other: str, quota_rate: Callable[[str], float | None]
) -> Iterator[Family]:
    """Yield the counts by user. The series `other` has no quota, because it stands for many users."""
    if not every_series:
        return
    for metric, read in _USER_COUNTS:
        yield Family(metric, [MetricPoint((each.user,), read(each.tally)) for each in every_series])
    yield Family(names.USER_RATE, [MetricPoint((each.user,), each.rate) for each in every_series])
    bounds = {each.user: quota_rate(each.user) for each in every_series if each.user != other}
    yield from labelled(
        names.USER_QUOTA, {user: rate for user, rate in bounds.items() if rate is not None}
    )


def waiting(engine: Engine) -> Iterator[Family]:
    """Yield the requests that wait, and how waits have ended."""
    held: list[int] = []  # start of each hold
    produces: list[int] = []
    fetches: list[int] = []
    for session in engine.sessions:
        if session.held is not None:
            held.append(session.held.since_us)
        for exchange in session.queue:
            if isinstance(exchange, Exchange) and exchange.plan.wait_ms:
                (produces if exchange.plan.keeps_partitions else fetches).append(
                    exchange.arrived_us
                )
    counts = {
        "hold": engine.holds.num_delayed,
        "produce": len(produces),
        "fetch": len(fetches),
    }
    since_us = {
        kind: min(waits, default=engine.now_us)
        for kind, waits in (("hold", held), ("produce", produces), ("fetch", fetches))
    }
    watched = {**counts, "hold": engine.holds.watched}
    oldest = {kind: (engine.now_us - since) / 1e6 for kind, since in since_us.items()}
    yield from labelled(names.PURGATORY_SIZE, watched)
    yield from labelled(names.PURGATORY_DELAYED, counts)
    yield from labelled(names.PURGATORY_OLDEST, oldest)
    yield from labelled(names.PURGATORY_COMPLETIONS, engine.completions)
    yield single(names.TIMERS, engine.timers.size)
    expired = engine.expired
    yield from labelled(names.EXPIRATIONS, {"Produce": expired.produce, "Fetch": expired.fetch})
    yield single(names.CLAMPED, expired.clamped)


def connections(engine: Engine, opened: int, closed: Mapping[CloseReason, int]) -> Iterator[Family]:
    """Yield connections, and brokers without a port."""
    yield single(names.CONNECTIONS, len(engine.sessions))
    yield single(names.UNAUTHENTICATED, len(engine.newcomers) + engine.connections.handshaking)
    yield single(names.OPENED, opened)
    yield from labelled(names.CLOSED, {reason.value: count for reason, count in closed.items()})
    muted = dict.fromkeys(_MUTES, 0)
    for session in engine.sessions:
        found = mute_reasons(session)
        if found:
            for reason in _MUTES:
                muted[reason] += bool(found & reason)
    yield from labelled(names.MUTED, {_MUTES[reason]: count for reason, count in muted.items()})
    failures = {reason.value: closed.get(reason, 0) for reason in _DIAL_FAILURES}
    yield from labelled(names.DIAL_FAILURES, failures)
    yield single(names.AUTH_FAILURES, engine.auth_failures)
    server = engine.sasl_server
    if server is not None and server.tokens is not None:
        yield single(names.TOKEN_KEYS_TIME, server.tokens.keys.loaded_ms / 1000)
        yield single(names.TOKEN_KEYS_FAILURES, server.tokens.keys.failures)
    yield single(names.UNMAPPED, len(engine.topology.unmapped_nodes))


def process(facts: Facts) -> Iterator[Family]:
    """Yield the figures of the process, of reloads and of dropped telemetry."""
    yield single(names.SPANS_DROPPED, facts.spans_dropped)
    yield single(names.USAGE_ROWS_DROPPED, facts.usage_rows_dropped)
    yield from labelled(names.LOG_SUPPRESSED, facts.log_suppressed)
    yield single(names.LOG_LINES_LOST, facts.log_lines_lost)
    yield from labelled(names.AUDIT_LOST, facts.audit_lost)
    reloads = facts.reloads
    yield from labelled(names.RELOADS, {"success": reloads.succeeded, "failure": reloads.failed})
    if reloads.last_ok is not None:
        yield single(names.RELOAD_OK, int(reloads.last_ok))
    if reloads.loaded_ms:
        yield single(names.RELOAD_TIME, reloads.loaded_ms / 1000)
    ends = {side: at_ms / 1000 for side, at_ms in facts.certificates_ms.items()}
    yield from labelled(names.CERTIFICATE_EXPIRY, ends)
    yield single(names.DRAINING, int(facts.draining))
    if facts.features:
        yield Family(
            names.FEATURE,
            [MetricPoint((each.name, each.stage), int(each.enabled)) for each in facts.features],
        )
    yield Family(names.BUILD, (MetricPoint((facts.version, platform.python_version()), 1),))
    yield single(names.DRIFT, facts.clock_drift_ms / 1000)
    own = facts.process
    yield single(names.RSS, own.resident_bytes)
    yield single(names.CPU, own.cpu_s)
    yield single(names.OPEN_FDS, own.open_fds)
    yield single(names.MAX_FDS, own.max_fds)
    yield single(names.STARTED, own.started_s)


def custom_metrics(entries: Iterable[Entry]) -> Iterator[Family]:
    """Yield a family for each metric that has values; entries that define the same metric are its label `policy`."""
    points: dict[MetricSpec, list[MetricPoint]] = {}
    for entry in entries:
        if entry.tools is None:
            continue
        for metric in entry.tools.metrics.by_name.values():
            for labels, value in metric.series.items():
                shown = _distribution(value) if isinstance(value, HistogramSeries) else value
                point = MetricPoint((entry.name, *labels), shown)
                points.setdefault(metric.spec, []).append(point)
    for spec, found in points.items():
        yield Family(_metric(spec), found)


def _metric(spec: MetricSpec) -> Metric:
    kind = MetricKind(spec.kind)
    ending = "_total" if kind is MetricKind.COUNTER else ""
    labels = ("policy", *spec.labels)
    return Metric(
        f"sluice_custom_{spec.name}{ending}", kind, spec.help, labels, buckets=spec.buckets
    )


def _distribution(series: HistogramSeries) -> Distribution:
    *below, total = accumulate(series.counts)
    return Distribution(tuple(below), total, series.sum, {})
