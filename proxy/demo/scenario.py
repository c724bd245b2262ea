"""The demo from start to end: start everything, run both parts, stop it in order, judge.

Rules:
- The first part is a job: two producers and a group of two readers. The second is the `experiment`, or, for a usage
  log, clients with `habits`.
- Readers are ready before the first record is produced; producers end before readers do.
- Sockets are read four times a second while clients run; during the experiment once a second, because reading them
  takes milliseconds of CPU.
- No process is left running, however the demo ends.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio

from proxy.demo.checks import Evidence, maybe_remote_ports
from proxy.demo.cluster import HOST
from proxy.demo.console import ClientFigures
from proxy.demo.experiment import LIMIT_PER_S, Experiment, maybe_cpu_ticks
from proxy.demo.habits import HABITS
from proxy.demo.processes import ChildProcess, ClientReady, ClientStatus, ClusterReady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.admin.schemas import State
    from proxy.demo.cluster import Sluice
    from proxy.demo.console import ClientRow, Screen
    from proxy.demo.experiment import Comparison, CpuTicks, Progress, Schedule
    from proxy.demo.processes import ClientResult, Message

TIMEOUT_S = 30.0
SOCKETS_EVERY_S, SOCKETS_EVERY_IN_EXPERIMENT_S = 0.25, 1.0
READERS = {"reader-1": "librdkafka", "reader-2": "librdkafka"}
PRODUCERS = {"producer-1": "kafka-python", "producer-2": "librdkafka"}
CONTESTANTS = {"polite": "kafka-python", "noisy": "librdkafka"}


class Scenario:
    """One run of the demo."""

    def __init__(
        self, screen: Screen, folder: Path, sluice: Sluice, *, has_habits: bool = False
    ) -> None:
        self._screen = screen
        self._folder = folder
        self._has_habits = has_habits
        self._sluice = sluice
        self._processes: list[ChildProcess] = []
        self._clients: dict[str, ChildProcess] = {}
        self._figures: dict[str, ClientFigures] = {}
        self._sockets_every_s = SOCKETS_EVERY_S
        self._arguments: list[str] = []
        self.state: State | None = None
        """The content of Sluice's dashboard at the end."""

    async def run(self, schedule: Schedule) -> Evidence:
        """Run both parts and return the evidence. Raises an ExceptionGroup of DemoErrors if that fails."""
        try:
            async with trio.open_nursery() as nursery:
                evidence = await self._run(nursery, schedule)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._sluice.kill()
                for process in self._processes:
                    await process.kill()
        return evidence

    def rows(self) -> list[ClientRow]:
        """Return the figures of the first part's clients, in the order they are shown."""
        return [self._figures[name].whole() for name in (*PRODUCERS, *READERS)]

    async def _run(self, nursery: trio.Nursery, schedule: Schedule) -> Evidence:
        cluster = await self._start("cluster", ["proxy.demo.cluster"], nursery)
        ready = await cluster.expect(ClusterReady, TIMEOUT_S)
        self._screen.note(f"cluster    {', '.join(ready.brokers.values())} (embedded)")
        sluice = self._sluice
        await sluice.start(nursery, ready.brokers)
        bootstrap = f"{HOST}:{sluice.bootstrap_port}"
        self._screen.note(
            f"sluice     {bootstrap}, brokers at {', '.join(sluice.advertised.values())}"
        )
        if sluice.dashboard:
            self._screen.note(f"dashboard  {sluice.dashboard} (while the demo runs)")
        self._arguments = [bootstrap, ready.topic, str(ready.partitions)]
        evidence = Evidence(ready.brokers, sluice.advertised, sluice.bootstrap_port)
        nursery.start_soon(self._observe_sockets, evidence)
        evidence.producers, evidence.readers = await self._run_job(nursery, schedule.job_s)
        if self._has_habits:
            evidence.contestants = await self._run_habits(nursery, schedule.experiment_s)
        elif schedule.rounds:
            compared = await self._run_experiment(nursery, schedule)
            evidence.comparison, evidence.contestants = compared
        self.state = await sluice.maybe_state()
        evidence.sluice_exit_code = await sluice.stop()
        await cluster.close_input()
        return evidence

    async def _run_job(
        self, nursery: trio.Nursery, seconds: float
    ) -> tuple[dict[str, ClientResult], dict[str, ClientResult]]:
        """Run the first part; return the results of producers and readers."""
        readers = await self._start_clients(nursery, READERS, role="reader")
        producers = await self._start_clients(nursery, PRODUCERS)
        self._screen.note(f"job        two producers, a group of two readers, {seconds:.0f} s")
        await self._watch((*PRODUCERS, *READERS), seconds)
        produced = await self._finish(producers)
        await self._until_caught_up()
        return produced, await self._finish(readers)

    async def _run_habits(self, nursery: trio.Nursery, seconds: float) -> dict[str, ClientResult]:
        """Run the clients with habits; return their results."""
        clients = await self._start_clients(nursery, dict.fromkeys(HABITS, "librdkafka"))
        limits = ", ".join(
            f"{name} {habit.quota:g}" for name, habit in HABITS.items() if habit.quota
        )
        self._screen.note(f"habits     quotas in requests/s: {limits}; {seconds:.0f} s")
        await self._watch(tuple(HABITS), seconds)
        return await self._finish(clients)

    async def _watch(self, names: Sequence[str], seconds: float) -> None:
        """Show the figures of some clients for so many seconds."""
        end_s = trio.current_time() + seconds
        while (left_s := end_s - trio.current_time()) > 0:
            for client in self._clients.values():
                client.check_running()
            rows = [self._figures[name].recent() for name in names]
            self._screen.show(rows, trio.current_time(), left_s)
            await trio.sleep(min(SOCKETS_EVERY_S, left_s))

    async def _until_caught_up(self) -> None:
        """Wait until the readers have as many records as were acked, and got no more for a second."""
        with trio.move_on_after(TIMEOUT_S):
            before = -1
            while True:
                consumed = sum(self._figures[name].records for name in READERS)
                acked = sum(self._figures[name].records for name in PRODUCERS)
                if consumed >= acked and consumed == before:
                    return
                before = consumed
                await trio.sleep(1)

    async def _run_experiment(
        self, nursery: trio.Nursery, schedule: Schedule
    ) -> tuple[Comparison, dict[str, ClientResult]]:
        """Run the second part; return the comparison and both clients' results."""
        self._screen.note(
            "experiment a polite producer (kafka-python, 200 requests/s) beside a noisy one "
            f"(librdkafka, all it can), without and with request_rate {LIMIT_PER_S:.0f} "
            f"for client id noisy, {schedule.experiment_s:.0f} s"
        )
        polite, noisy = await self._start_clients(nursery, CONTESTANTS)
        self._sockets_every_s = SOCKETS_EVERY_IN_EXPERIMENT_S
        rows = self.rows()

        async def set_quota(requests_per_s: float | None) -> None:
            await self._sluice.set_quota(noisy.name, requests_per_s)

        def on_sample(progress: Progress) -> None:
            self._screen.compare(rows, progress)

        experiment = Experiment(polite, noisy, set_quota, self._maybe_cpu_ticks)
        comparison = await experiment.run(schedule, on_sample)
        return comparison, await self._finish([polite, noisy])

    def _maybe_cpu_ticks(self) -> CpuTicks | None:
        """The CPU time of the demo's processes, and of all."""
        own = [each.process.pid for each in self._processes if each.process.poll() is None]
        own += [os.getpid()] if self._sluice.pid is None else [os.getpid(), self._sluice.pid]
        return maybe_cpu_ticks(own)

    async def _start(
        self,
        name: str,
        module: list[str],
        nursery: trio.Nursery,
        on_message: Callable[[Message], None] = lambda _: None,
    ) -> ChildProcess:
        process = ChildProcess(name, module, self._folder)
        self._processes.append(process)
        await process.start(nursery, on_message)
        return process

    async def _start_clients(
        self, nursery: trio.Nursery, libraries: dict[str, str], role: str = ""
    ) -> list[ChildProcess]:
        """Start clients, named with their libraries, and wait until all are ready."""
        for name, library in libraries.items():
            figures = self._figures[name] = ClientFigures(name, library)

            def on_message(message: Message, figures: ClientFigures = figures) -> None:
                if isinstance(message, ClientStatus):
                    figures.add(message, trio.current_time())

            module = ["proxy.demo.clients", role or name, name, *self._arguments]
            self._clients[name] = await self._start(name, module, nursery, on_message)
        clients = [self._clients[name] for name in libraries]
        for client in clients:
            await client.expect(ClientReady, TIMEOUT_S)
        return clients

    async def _finish(self, clients: list[ChildProcess]) -> dict[str, ClientResult]:
        results = {client.name: await client.finish(TIMEOUT_S) for client in clients}
        for name in results:
            del self._clients[name]
        return results

    async def _observe_sockets(self, evidence: Evidence) -> None:
        while True:
            for name, client in self._clients.items():
                ports = maybe_remote_ports(client.process.pid)
                evidence.client_ports.setdefault(name, set()).update(ports or ())
                if ports is None and client.process.poll() is None:
                    evidence.sockets_seen = False
            if self._sluice.pid is not None:
                evidence.sluice_ports.update(maybe_remote_ports(self._sluice.pid) or ())
            await trio.sleep(self._sockets_every_s)
