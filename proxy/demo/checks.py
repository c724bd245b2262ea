"""The evidence of a run, and the pure function that judges it.

Rules:
- All evidence comes from the clients' own books and the kernel's list of sockets, never from Sluice.
- Nothing passes by default: an empty book, a broker never reached or a silent client fails.
- A check that cannot be observed (no /proc) or judged (a machine busy with other programs) says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.experiment import PROC, Condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from proxy.demo.experiment import Comparison, Sample
    from proxy.demo.processes import Brokers, ClientResult

MIN_OF_QUOTA, MAX_OF_QUOTA = 0.90, 1.05
MAX_BURST = 3.0
"""Times the quota. A client that stalled saves up two seconds' worth and sends them with the next second's: a sample
of one second may hold that much, and no more.
"""
MAX_P50, MAX_P99 = 1.10, 2.0
"""The polite producer's latencies, as multiples of those it has alone."""
MAX_SPREAD = 0.20
"""Of the polite producer's p50 while it is alone. Medians of seven samples then differ by about 5 % by chance; with a
larger spread a bound of 10 % means nothing.
"""
MAX_OTHERS = 0.10
"""Share of the machine. If other programs use more, they may be the reason for a bound that does not hold."""
LISTENING = "0A"


@dataclass
class Evidence:
    """Everything that was collected."""

    brokers: Brokers
    """The real cluster."""
    advertised: Brokers
    """Sluice's address for each broker of the cluster."""
    bootstrap_port: int
    producers: Mapping[str, ClientResult] = field(default_factory=dict)
    """Those whose records are read back."""
    readers: Mapping[str, ClientResult] = field(default_factory=dict)
    contestants: Mapping[str, ClientResult] = field(default_factory=dict)
    """The polite and the noisy producer."""
    comparison: Comparison | None = None
    """None: there was no experiment."""
    client_ports: dict[str, set[int]] = field(default_factory=dict)
    """By client: every remote port it was seen connected to. Empty where it cannot be observed."""
    sluice_ports: set[int] = field(default_factory=set)
    """Every remote port that Sluice was seen connected to."""
    sockets_seen: bool = True
    sluice_exit_code: int | None = None


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    holds: bool | None
    """None: it could not be judged."""
    detail: str


def maybe_remote_ports(pid: int, proc: Path = PROC) -> set[int] | None:
    """Return the remote ports of a process's TCP connections (proc_pid_net(5)); None if they cannot be seen."""
    try:
        own = {_target(link) for link in (proc / str(pid) / "fd").iterdir()}
        tables = [proc / str(pid) / "net" / name for name in ("tcp", "tcp6")]
        lines = [
            line.split()
            for table in tables
            if table.exists()  # a kernel without IPv6 has no tcp6
            for line in table.read_text("ascii").splitlines()[1:]
        ]
    except OSError:
        return None
    return {
        int(remote.rpartition(":")[2], 16)
        for _, _, remote, state, *_, inode in (line[:10] for line in lines)
        if state != LISTENING and f"socket:[{inode}]" in own
    }


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile


def judge(evidence: Evidence) -> list[Finding]:
    """Return the findings, in the order they are shown."""
    code = evidence.sluice_exit_code
    return [
        _all_acked(evidence),
        _nothing_lost(evidence),
        _order(evidence),
        _metadata(evidence),
        _sockets(evidence),
        *([] if evidence.comparison is None else _compared(evidence.comparison)),
        Finding("Sluice exited cleanly", code == 0, f"exit code {code} after SIGTERM"),
    ]


def _all_acked(evidence: Evidence) -> Finding:
    senders = {**evidence.producers, **evidence.contestants}
    failed = {name: result.failed for name, result in senders.items() if result.failed}
    silent = [name for name, result in senders.items() if not result.count]
    if failed or silent or not evidence.producers:
        detail = f"failed records: {failed}, producers without an acked record: {silent}"
        return Finding("every record acked", False, detail)
    acked = sum(result.count for result in senders.values())
    return Finding("every record acked", True, f"{acked:,} records, none rejected or unanswered")


def _nothing_lost(evidence: Evidence) -> Finding:
    acked = _streams(evidence.producers.values())
    consumed = _streams(evidence.readers.values())
    lost = {
        stream: len(missing)
        for stream, numbers in acked.items()
        if (missing := numbers - consumed.get(stream, set()))
    }
    if lost or not any(acked.values()):
        where = ", ".join(f"{stream}: {count:,}" for stream, count in lost.items())
        detail = f"acked but never consumed: {where}" if where else "no record was acked"
        return Finding("nothing lost", False, detail)
    repeated = sum(
        len(numbers) - len(set(numbers))
        for result in evidence.readers.values()
        for numbers in result.numbers.values()
    )
    counts = [sum(map(len, streams.values())) for streams in (consumed, acked)]
    detail = "{:,} consumed of {:,} acked".format(*counts)
    return Finding("nothing lost", True, detail + (f", {repeated:,} twice" if repeated else ""))


def _order(evidence: Evidence) -> Finding:
    """A repeated record is no fault: delivery is at least once."""
    streams = {
        (name, stream): list(dict.fromkeys(numbers))
        for name, result in evidence.readers.items()
        for stream, numbers in result.numbers.items()
    }
    swapped = [f"{stream} at {name}" for (name, stream), n in streams.items() if n != sorted(n)]
    if swapped or not evidence.readers:
        return Finding("order intact", False, f"consumed out of order: {', '.join(swapped)}")
    count = len({stream for _, stream in streams})
    return Finding("order intact", True, f"in each of {count} streams (producer x partition)")


def _streams(results: Iterable[ClientResult]) -> dict[str, set[int]]:
    joined: dict[str, set[int]] = {}
    for result in results:
        for stream, numbers in result.numbers.items():
            joined.setdefault(stream, set()).update(numbers)
    return joined


def _metadata(evidence: Evidence) -> Finding:
    name, advertised = "metadata names only Sluice", evidence.advertised
    clients = {**evidence.producers, **evidence.readers, **evidence.contestants}
    for client, result in clients.items():
        if result.brokers != advertised:
            return Finding(name, False, f"{client} got {result.brokers}, expected {advertised}")
    return Finding(name, True, f"{len(advertised)} brokers, each at a port of Sluice")


def _sockets(evidence: Evidence) -> Finding:
    name = "brokers reached only through Sluice"
    if not evidence.sockets_seen:
        detail = "not observed: this system has no /proc; judged by metadata alone"
        return Finding(name, True, detail)
    real = {port_of(address): node for node, address in evidence.brokers.items()}
    for client, ports in evidence.client_ports.items():
        if bypassed := sorted(real[port] for port in ports & real.keys()):
            return Finding(name, False, f"{client} connected to brokers {bypassed} directly")
    used = set().union(*evidence.client_ports.values())
    own = {port_of(address): node for node, address in evidence.advertised.items()}
    unused = [node for port, node in own.items() if port not in used]
    unreached = [node for port, node in real.items() if port not in evidence.sluice_ports]
    if unused or unreached:
        detail = f"no client used the ports of brokers {unused}; Sluice never reached {unreached}"
        return Finding(name, False, detail)
    if unknown := used - own.keys() - {evidence.bootstrap_port}:
        return Finding(name, False, f"clients connected to unknown ports {sorted(unknown)}")
    return Finding(name, True, f"all {len(real)} of them; no client had a socket to any broker")


def port_of(address: str) -> int:
    """Return the port of `host:port`."""
    return int(address.rpartition(":")[2])


def _compared(comparison: Comparison) -> list[Finding]:
    """Judge what the quota did to both producers."""
    alone, no_quota, quota = map(comparison.maybe_medians, Condition)
    if alone is None or no_quota is None or quota is None:
        return [Finding("quotas compared", False, "a condition has no sample")]
    name = "without a quota the polite producer is slower"
    slower = _bounded(name, alone, no_quota, expected=False)
    if not slower.holds:  # no fault of Sluice, but it shows little
        slower = _not_judged(slower, "this machine serves both producers")
    name = "with a quota the polite producer is as fast as alone"
    latencies = [slower, _bounded(name, alone, quota, expected=True)]
    if (spread := comparison.spread()) > MAX_SPREAD:
        reason = f"alone its p50 varies by {spread:.0%}: this machine is too busy"
        latencies = [_not_judged(finding, reason) for finding in latencies]
    elif comparison.others() > MAX_OTHERS:
        latencies = [
            finding if finding.holds else _not_judged(finding, _busy(comparison))
            for finding in latencies
        ]
    return [_held_to_quota(comparison, quota), *latencies]


def _held_to_quota(comparison: Comparison, quota: Sample) -> Finding:
    """A rate that a busy machine explains is not judged: the client may have stalled and caught up."""
    limit, rate = comparison.limit_per_s, quota.noisy_per_s
    rates = [taken.noisy_per_s for taken in comparison.samples[Condition.QUOTA]]
    detail = f"{rate:.1f} requests/s of {limit:.0f}, samples {min(rates):.1f} to {max(rates):.1f}"
    holds = MIN_OF_QUOTA * limit <= rate <= MAX_OF_QUOTA * limit
    finding = Finding("the noisy producer is held to its quota", holds, detail)
    if not holds and 0 < rate <= MAX_BURST * limit and comparison.others() > MAX_OTHERS:
        return _not_judged(finding, _busy(comparison))
    return finding


def _not_judged(finding: Finding, reason: str) -> Finding:
    return finding._replace(holds=None, detail=f"{finding.detail}; not judged: {reason}")


def _busy(comparison: Comparison) -> str:
    return f"other programs used {comparison.others():.0%} of this machine's CPU"


def _bounded(name: str, alone: Sample, beside: Sample, *, expected: bool) -> Finding:
    p50, p99 = beside.p50_ms / alone.p50_ms, beside.p99_ms / alone.p99_ms
    detail = f"p50 {p50:.2f} times that alone (bound {MAX_P50}), p99 {p99:.2f} (bound {MAX_P99})"
    return Finding(name, (p50 <= MAX_P50 and p99 < MAX_P99) is expected, detail)
