"""What the run has shown: a pure function of the clients' books and of the sockets seen.

Rules:
- Nothing is taken for granted: an empty book, an unseen broker or a silent client fails.
- What could not be seen (no `/proc`) or judged (a machine that is busy with something else) is said,
  and does not count as seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo import ledger
from proxy.demo.comparison import Arm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.demo.comparison import Comparison, Sample
    from proxy.demo.messages import Brokers, Final

LEAST_OF_QUOTA = 0.90
MOST_OF_QUOTA = 1.05
BURST_OF_QUOTA = 3.0
"""A client that stood still saves up two seconds' worth, and takes them with the next one's: so much may pass in the
second of a sample, and no more."""
MOST_P50 = 1.10
"""The polite one's median latency, in parts of what it is alone."""
MOST_P99 = 2.0
MOST_UNREST = 0.20
"""Of the polite one alone. Medians of seven samples then differ by some 5 % for no reason; with more
of it a bound of 10 % says nothing.
"""
MOST_OTHERS = 0.10
"""Of the machine. With more of it a bound that is broken may be broken by other programs."""


@dataclass
class Evidence:
    """All that was collected."""

    brokers: Brokers
    """The real cluster."""
    advertised: Brokers
    """Where Sluice stands for each broker of the cluster."""
    bootstrap_port: int
    producers: Mapping[str, Final]
    """Those whose records are read back."""
    readers: Mapping[str, Final]
    contestants: Mapping[str, Final] = field(default_factory=dict)
    """The polite one and the noisy one."""
    comparison: Comparison | None = None
    """None: that part was not played."""
    client_ports: dict[str, set[int]] = field(default_factory=dict)
    """Per client: every port it was ever seen connected to. Empty where it cannot be seen."""
    sluice_ports: set[int] = field(default_factory=set)
    sockets_seen: bool = True
    sluice_exit_code: int | None = None


class Check(NamedTuple):
    """One finding."""

    name: str
    holds: bool | None
    """None: it could not be judged."""
    detail: str


def judge(seen: Evidence) -> list[Check]:
    """Return every check, in the order they are shown."""
    return [
        _all_acked(seen),
        _nothing_lost(seen),
        _order(seen),
        _addresses(seen),
        _sockets(seen),
        *([] if seen.comparison is None else compared(seen.comparison)),
        _end(seen),
    ]


def compared(comparison: Comparison) -> list[Check]:
    """Return what the quota has done, to whom."""
    typical = {arm: comparison.maybe_typical(arm) for arm in Arm}
    alone, without, held = (typical[arm] for arm in (Arm.ALONE, Arm.WITHOUT, Arm.WITH))
    if alone is None or without is None or held is None:
        return [Check("quotas compared", False, "an arm has no sample")]
    unrest = comparison.unrest()
    latencies = [
        # Without the first the second would say nothing.
        Check(
            "without a quota the polite one suffers",
            not _bounded(alone, without),
            _times(alone, without),
        ),
        Check("with it the polite one is untouched", _bounded(alone, held), _times(alone, held)),
    ]
    others = comparison.others()
    if unrest > MOST_UNREST:
        busy = f"; not judged: alone it differs by {unrest:.0%} itself, this machine is too busy"
        latencies = [Check(name, None, detail + busy) for name, _, detail in latencies]
    elif others > MOST_OTHERS:
        busy = f"; not judged: other programs took {others:.0%} of this machine's CPU"
        latencies = [c if c.holds else Check(c.name, None, c.detail + busy) for c in latencies]
    return [_held(comparison, held), *latencies]


def _held(comparison: Comparison, held: Sample) -> Check:
    """A rate beside the limit that a busy machine explains is not judged: it comes from a client that stood still."""
    limit = comparison.limit_per_s
    rates = [taken.noisy_per_s for taken in comparison.samples(Arm.WITH)]
    detail = (
        f"{held.noisy_per_s:.1f} requests/s of {limit:.0f}, "
        f"in single samples {min(rates):.1f} to {max(rates):.1f}"
    )
    holds: bool | None = LEAST_OF_QUOTA * limit <= held.noisy_per_s <= MOST_OF_QUOTA * limit
    is_possible = 0 < held.noisy_per_s <= BURST_OF_QUOTA * limit
    if not holds and is_possible and comparison.others() > MOST_OTHERS:
        holds = None
        detail += (
            f"; not judged: other programs took {comparison.others():.0%} of this machine's CPU"
        )
    return Check("the noisy one is held to its quota", holds, detail)


def _bounded(alone: Sample, beside: Sample) -> bool:
    return beside.p50_ms <= MOST_P50 * alone.p50_ms and beside.p99_ms < MOST_P99 * alone.p99_ms


def _times(alone: Sample, beside: Sample) -> str:
    p50, p99 = beside.p50_ms / alone.p50_ms, beside.p99_ms / alone.p99_ms
    return (
        f"p50 {p50:.2f} times what it is alone (bound {MOST_P50}), p99 {p99:.2f} (bound {MOST_P99})"
    )


def _all_acked(seen: Evidence) -> Check:
    senders = {**seen.producers, **seen.contestants}
    failed = {name: final.failed for name, final in senders.items() if final.failed}
    silent = [name for name, final in senders.items() if not final.runs]
    acked = ledger.total(ledger.union(final.runs for final in senders.values()))
    if failed or silent or not seen.producers:
        return Check("every record acked", False, f"failed: {failed}, silent: {silent}")
    return Check("every record acked", True, f"{acked:,} records, none refused or unanswered")


def _nothing_lost(seen: Evidence) -> Check:
    acked = ledger.union(final.runs for final in seen.producers.values())
    consumed = ledger.union(final.runs for final in seen.readers.values())
    lost = ledger.missing(acked, consumed)
    repeated = sum(final.repeated for final in seen.readers.values())
    if lost or not acked:
        where = ", ".join(
            f"{name}/{partition}: {count:,}" for (name, partition), count in lost.items()
        )
        return Check(
            "nothing lost", False, f"acked but never consumed: {where or 'nothing was acked'}"
        )
    told = f"{ledger.total(consumed):,} consumed of {ledger.total(acked):,} acked"
    return Check("nothing lost", True, told + (f", {repeated:,} twice" if repeated else ""))


def _order(seen: Evidence) -> Check:
    swapped = {name: f.out_of_order for name, f in seen.readers.items() if f.out_of_order}
    if swapped or not seen.readers:
        return Check("order intact", False, f"consumed out of order: {swapped}")
    streams = len(ledger.union(final.runs for final in seen.readers.values()))
    return Check("order intact", True, f"in each of {streams} streams (producer x partition)")


def _addresses(seen: Evidence) -> Check:
    name = "metadata names only Sluice"
    for client, final in {**seen.producers, **seen.readers, **seen.contestants}.items():
        if final.brokers != seen.advertised:
            return Check(name, False, f"{client} was told {final.brokers}, not {seen.advertised}")
    return Check(name, True, f"{len(seen.advertised)} brokers, each at a port of Sluice")


def _sockets(seen: Evidence) -> Check:
    name = "brokers reached only through Sluice"
    if not seen.sockets_seen:
        return Check(name, True, "not observed: this system has no /proc; judged by metadata alone")
    real = {_port(address): node for node, address in seen.brokers.items()}
    for client, ports in seen.client_ports.items():
        if bypassed := sorted(real[port] for port in ports & real.keys()):
            return Check(name, False, f"{client} connected to brokers {bypassed} directly")
    used = set().union(*seen.client_ports.values())
    unused = [node for node, address in seen.advertised.items() if _port(address) not in used]
    unreached = [node for port, node in real.items() if port not in seen.sluice_ports]
    if unused or unreached:
        detail = f"no client used the ports of brokers {unused}; Sluice never reached {unreached}"
        return Check(name, False, detail)
    allowed = {_port(address) for address in seen.advertised.values()} | {seen.bootstrap_port}
    if strange := used - allowed:
        return Check(name, False, f"clients were connected to unknown ports {sorted(strange)}")
    return Check(name, True, f"all {len(real)} of them; no client held a socket to any broker")


def _end(seen: Evidence) -> Check:
    code = seen.sluice_exit_code
    return Check("Sluice ended well", code == 0, f"SIGTERM, exit code {code}")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
