"""The demo from start to end: a polite client alone, beside a noisy one, and beside a noisy one with a quota.

Rules:
- The three phases take turns, a second or so each, so that other load on the machine affects them alike.
- Nothing restarts in between: the same two clients keep their connections; the noisy one starts and stops on command,
  and its quota is set and removed while it sends.
- After each change a settling time is not measured. With a new quota it begins when the requests that passed before
  the quota, and the burst that it allows, are answered.
- A sample is what happened between two statuses that each client reported.
- With a usage log there are no phases: four clients with quotas run beside the polite one.
- No process is left running, however the demo ends.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from proxy.demo.checks import LIMIT_PER_S, Evidence, Phase, Sample
from proxy.demo.processes import (
    TIMEOUT_S,
    ChildProcess,
    ClientReady,
    ClientStatus,
    ClusterReady,
    DemoError,
)
from proxy.demo.roles import NOISY, POLITE, QUOTAS
from proxy.demo.sluice import Sluice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SETTLE_S, MEASURE_S = 0.5, 1.0
SHOW_EVERY_S = 5.0


def play(
    seconds: float, folder: Path, usage_log: Path | None = None, quotas_file: Path | None = None
) -> Evidence:
    """Run the demo and return the evidence. Raises DemoError if it cannot be completed."""
    with ExitStack() as running:
        cluster = running.enter_context(
            ChildProcess("cluster", ["-m", "proxy.demo.cluster"], folder)
        )
        ready = cluster.expect(ClusterReady)
        click.echo(f"cluster    {', '.join(ready.brokers.values())} (embedded)")
        sluice = running.enter_context(Sluice(ready.brokers, folder, usage_log, quotas_file))
        sluice.await_ready()
        ports = ", ".join(sluice.advertised.values())
        click.echo(f"sluice     {sluice.bootstrap}, brokers at {ports}")
        click.echo(f"dashboard  {sluice.dashboard} (while the demo runs)")
        evidence = Evidence(sluice.advertised)

        def client(name: str, topic: str = "bulk") -> ChildProcess:
            command = ["-m", "proxy.demo.clients", name, sluice.bootstrap, topic]
            started = running.enter_context(ChildProcess(name, command, folder))
            evidence.told[name] = started.expect(ClientReady).brokers
            return started

        polite = client(POLITE, ready.topic)
        if usage_log is None:
            clients = [polite, client(NOISY)]
            _compare(polite, clients[1], sluice, seconds, evidence)
        else:
            clients = [polite, *map(client, QUOTAS)]
            _work(clients, seconds)
        evidence.results = {each.name: each.finish() for each in clients}
        evidence.sluice_exit_code = sluice.stop()
    return evidence


def _work(clients: Sequence[ChildProcess], seconds: float) -> None:
    """Let all clients work for so many seconds, and show their rates."""
    click.echo(f"job        {', '.join(each.name for each in clients)}, {seconds:.0f} s")
    before = {each.name: each.ask("start") for each in clients}
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(SHOW_EVERY_S, left_s))
        after = {each.name: each.ask("report") for each in clients}
        rates = (f"{name} {rate(before[name], now):.0f}/s" for name, now in after.items())
        click.echo(f"{end_s - time.monotonic():6.0f} s   {', '.join(rates)}")
        before = after


def _compare(
    polite: ChildProcess, noisy: ChildProcess, sluice: Sluice, seconds: float, evidence: Evidence
) -> None:
    """Take samples of all phases in turn, for about so many seconds."""
    rounds = max(1, round(seconds / (len(Phase) * (SETTLE_S + MEASURE_S))))
    click.echo(f"phases     alone, noisy, noisy with {LIMIT_PER_S:.0f} requests/s; {rounds} rounds")
    polite.ask("start")
    for turn in range(1, rounds + 1):
        for phase in Phase:
            _change_to(phase, noisy, sluice)
            time.sleep(SETTLE_S)
            taken = _sample(polite, noisy)
            evidence.samples[phase].append(taken)
            click.echo(
                f"{turn:>2} of {rounds}    {phase.value:<16} polite p50 {taken.p50_ms:>6.1f} ms"
                f" p99 {taken.p99_ms:>6.1f} ms   noisy {taken.noisy_per_s:>7,.0f} requests/s"
            )
    _change_to(Phase.ALONE, noisy, sluice)


def _change_to(phase: Phase, noisy: ChildProcess, sluice: Sluice) -> None:
    if phase is Phase.ALONE:
        noisy.ask("stop")
        sluice.set_quota(NOISY, None)  # releases what the quota held back
        _until(noisy, lambda _, now: not now.outstanding)
    elif phase is Phase.NO_QUOTA:
        noisy.ask("start")
    else:
        sluice.set_quota(NOISY, LIMIT_PER_S)
        _until(noisy, lambda before, now: 0 < rate(before, now) < 2 * LIMIT_PER_S)


def _until(client: ChildProcess, is_so: Callable[[ClientStatus, ClientStatus], bool]) -> None:
    """Wait until this holds of two statuses in turn, but not for ever: a check fails then."""
    before, deadline_s = client.ask("report"), time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        time.sleep(SETTLE_S)
        now = client.ask("report")
        if is_so(before, now):
            return
        before = now


def _sample(polite: ChildProcess, noisy: ChildProcess) -> Sample:
    """Measure for a second; longer if no record of the polite client is acknowledged in it."""
    _, before = polite.ask("report"), noisy.ask("report")
    latencies_ms: list[float] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while not latencies_ms:
        if time.monotonic() > deadline_s:
            raise DemoError("no record of the polite client was acknowledged")
        time.sleep(MEASURE_S)
        latencies_ms = polite.ask("report").latencies_ms
    after = noisy.ask("report")
    p50_ms, p99_ms = (percentile(latencies_ms, percent) for percent in (50, 99))
    return Sample(p50_ms, p99_ms, rate(before, after), len(after.throttles_ms))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of all do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def rate(before: ClientStatus, after: ClientStatus) -> float:
    """Return the records acknowledged per second in between."""
    return (after.acked - before.acked) * 1e9 / (after.at_ns - before.at_ns)
