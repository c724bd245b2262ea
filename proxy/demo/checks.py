"""The evidence of a run, and the pure function that judges it.

Rules:
- All evidence comes from the clients' own books, never from Sluice.
- Nothing passes by default: an empty book fails.
- A bound that does not hold is a failure only if the machine was quiet enough to tell: the polite client's latencies
  while it is alone say so. Otherwise it is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.roles import POLITE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.demo.processes import Brokers, ClientResult

LIMIT_PER_S = 50.0
"""The noisy client's quota."""
MIN_OF_QUOTA, MAX_OF_QUOTA = 0.90, 1.05
MAX_BURST = 3.0
"""Times the quota. A client that stalled saves up two seconds' worth and sends them with the next second's: a sample
of one second may hold that much, and no more.
"""
MAX_P50, MAX_P99 = 1.2, 2.0
"""The polite client's latencies, as multiples of those it has alone."""
MIN_STEADY, MAX_P50_SPREAD, MAX_P99_SPREAD = 4, 1.2, 2.0
"""A machine can be judged with so many samples of the polite client alone, if the quartiles of their p50 and of their
p99 are no further apart than these factors.
"""
BUSY = "; not judged: alone its latencies vary too much, or there are too few rounds"


class Phase(Enum):
    """The load beside the polite client."""

    ALONE = "alone"
    NO_QUOTA = "noisy"
    QUOTA = "noisy, quota"


class Sample(NamedTuple):
    """One measured interval."""

    p50_ms: float
    p99_ms: float
    """Of the polite client, from passing a record to the library to its acknowledgement."""
    noisy_per_s: float
    """Requests of the noisy client, answered."""
    throttled: int = 0
    """Replies to the noisy client with a throttle_time_ms."""


@dataclass
class Evidence:
    """Everything that was collected, by client."""

    advertised: Brokers
    """Sluice's address for each broker of the cluster."""
    told: dict[str, Brokers] = field(default_factory=dict)
    """The brokers that the client's metadata names."""
    results: Mapping[str, ClientResult] = field(default_factory=dict)
    samples: dict[Phase, list[Sample]] = field(
        default_factory=lambda: {phase: [] for phase in Phase}
    )
    sluice_exit_code: int | None = None

    def maybe_medians(self) -> list[Sample] | None:
        """Return the medians of each phase; None when one has no sample, as with a usage log."""
        if not all(self.samples.values()):
            return None
        return [Sample(*map(median, zip(*taken, strict=True))) for taken in self.samples.values()]


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    holds: bool | None
    """None: it could not be judged."""
    detail: str


def judge(evidence: Evidence) -> list[Finding]:
    """Return the findings, in the order they are shown."""
    medians, code = evidence.maybe_medians(), evidence.sluice_exit_code
    return [
        *([] if medians is None else _compared(evidence.samples, *medians)),
        _all_acked(evidence.results),
        _nothing_lost(evidence.results),
        _metadata(evidence),
        Finding("Sluice exited cleanly", code == 0, f"exit code {code} after SIGTERM"),
    ]


def summary(findings: Sequence[Finding]) -> str:
    """Return the verdict in one line."""
    failed = [finding.name for finding in findings if finding.holds is False]
    unjudged = [finding.name for finding in findings if finding.holds is None]
    verdict = f"failed ({', '.join(failed)})" if failed else "passed"
    return f"Verdict: {verdict}" + (f"; not judged: {', '.join(unjudged)}" if unjudged else "")


def _compared(
    samples: Mapping[Phase, Sequence[Sample]], alone: Sample, no_quota: Sample, quota: Sample
) -> list[Finding]:
    """Judge what the quota did to both clients."""
    steady = _is_steady(samples[Phase.ALONE])
    waits, as_alone = not _is_as_quick(no_quota, alone), _is_as_quick(quota, alone)
    rate, throttled = quota.noisy_per_s, sum(each.throttled for each in samples[Phase.QUOTA])
    held = MIN_OF_QUOTA * LIMIT_PER_S <= rate <= MAX_OF_QUOTA * LIMIT_PER_S
    may_fail = steady or not 0 < rate <= MAX_BURST * LIMIT_PER_S
    return [
        Finding(
            "without a quota the polite client waits",
            waits or None,  # no fault of Sluice, but it shows little
            _ratios(no_quota, alone) + ("" if waits else "; this machine serves both clients"),
        ),
        _bounded(
            "with the quota the polite client is as quick as alone",
            _ratios(quota, alone) + f" (bounds {MAX_P50}, {MAX_P99})",
            holds=as_alone,
            may_fail=steady,
        ),
        _bounded(
            "the noisy client is held to its quota",
            f"{rate:.1f} requests/s of {LIMIT_PER_S:.0f}, {no_quota.noisy_per_s:,.0f} without",
            holds=held,
            may_fail=may_fail,
        ),
        Finding(
            "the noisy client is told to slow down",
            throttled > 0,
            f"{throttled:,} replies with throttle_time_ms",
        ),
    ]


def _is_steady(alone: Sequence[Sample]) -> bool:
    if len(alone) < MIN_STEADY:
        return False
    p50, p99 = (_spread([each[place] for each in alone]) for place in (0, 1))
    return p50 <= MAX_P50_SPREAD and p99 <= MAX_P99_SPREAD


def _spread(values: Sequence[float]) -> float:
    lower, _, upper = quantiles(values, n=4)
    return upper / lower


def _is_as_quick(beside: Sample, alone: Sample) -> bool:
    return beside.p50_ms <= MAX_P50 * alone.p50_ms and beside.p99_ms <= MAX_P99 * alone.p99_ms


def _ratios(beside: Sample, alone: Sample) -> str:
    p50, p99 = beside.p50_ms / alone.p50_ms, beside.p99_ms / alone.p99_ms
    return f"p50 {p50:.2f} times that alone, p99 {p99:.2f}"


def _bounded(name: str, detail: str, *, holds: bool, may_fail: bool) -> Finding:
    if holds or may_fail:
        return Finding(name, holds, detail)
    return Finding(name, None, detail + BUSY)


def _all_acked(results: Mapping[str, ClientResult]) -> Finding:
    failed = {name: result.failed for name, result in results.items() if result.failed}
    silent = [name for name, result in results.items() if not result.acked]
    if failed or silent or not results:
        detail = f"failed records: {failed}, clients without an acked record: {silent}"
        return Finding("every record acked", False, detail)
    acked = sum(result.acked for result in results.values())
    return Finding("every record acked", True, f"{acked:,} records, none rejected or unanswered")


def _nothing_lost(results: Mapping[str, ClientResult]) -> Finding:
    name, result = "nothing lost, order intact", results.get(POLITE)
    if result is None or not result.acked:
        return Finding(name, False, "nothing was read back")
    if result.lost or result.out_of_order:
        detail = f"{result.lost:,} records lost, {result.out_of_order:,} repeated or out of order"
        return Finding(name, False, detail)
    return Finding(name, True, f"the polite client read back all its {result.acked:,} records")


def _metadata(evidence: Evidence) -> Finding:
    name, advertised = "clients know Sluice only", evidence.advertised
    for client, brokers in evidence.told.items():
        if brokers != advertised:
            return Finding(name, False, f"{client} was told {brokers}, expected {advertised}")
    count = len(advertised)
    detail = f"metadata names {count} brokers, each at a port of Sluice"
    return Finding(name, bool(evidence.told), detail)
