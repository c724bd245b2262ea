"""What the run has shown: a pure function of the clients' books and of the sockets seen.

Rules:
- Nothing is taken for granted: an empty book, an unseen broker or a silent client fails.
- What could not be seen (no `/proc`) is said, and does not count as seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo import ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.demo.messages import Brokers, Final


@dataclass
class Evidence:
    """All that was collected."""

    brokers: Brokers
    """The real cluster."""
    advertised: Brokers
    """Where Sluice stands for each broker of the cluster."""
    bootstrap_port: int
    producers: Mapping[str, Final]
    readers: Mapping[str, Final]
    client_ports: dict[str, set[int]] = field(default_factory=dict)
    """Per client: every port it was ever seen connected to. Empty where it cannot be seen."""
    sluice_ports: set[int] = field(default_factory=set)
    sockets_seen: bool = True
    sluice_exit_code: int | None = None


class Check(NamedTuple):
    """One finding."""

    name: str
    holds: bool
    detail: str


def judge(seen: Evidence) -> list[Check]:
    """Return every check, in the order they are shown."""
    return [
        _all_acked(seen),
        _nothing_lost(seen),
        _order(seen),
        _addresses(seen),
        _sockets(seen),
        _end(seen),
    ]


def _all_acked(seen: Evidence) -> Check:
    failed = {name: final.failed for name, final in seen.producers.items() if final.failed}
    silent = [name for name, final in seen.producers.items() if not final.runs]
    acked = ledger.total(ledger.union(final.runs for final in seen.producers.values()))
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
    for client, final in {**seen.producers, **seen.readers}.items():
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
