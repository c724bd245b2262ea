"""The play: start everything, let it run, stop it in order, judge.

Rules:
- The first part is a job: two producers and a group of readers. The second is the `contest`.
- Readers are ready before the first record is made; producers end before readers do.
- Sockets are looked at four times a second, for as long as clients live; once a second while
  latencies are compared, for a look takes milliseconds of CPU.
- However it ends, no process is left behind.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from proxy.demo.board import Standing
from proxy.demo.contest import LIMIT_PER_S, Contest
from proxy.demo.cpu import maybe_used
from proxy.demo.messages import ClientReady, ClusterReady, Message, Tick
from proxy.demo.page import Run, write
from proxy.demo.process import Child, StageError
from proxy.demo.sluice import HOST, Sluice
from proxy.demo.sockets import maybe_remote_ports
from proxy.demo.verdict import Check, Evidence, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.demo.board import Row
    from proxy.demo.comparison import Comparison, Progress
    from proxy.demo.contest import Script
    from proxy.demo.cpu import Used
    from proxy.demo.dashboard import Seen
    from proxy.demo.messages import Final
    from proxy.demo.screen import Screen
    from proxy.demo.sluice import Front

PATIENCE_S = 30.0
LOOK_S = 0.25
SELDOM_S = 1.0
READERS = ("reader-1", "reader-2")
PRODUCERS = {"producer-1": "kafka-python", "producer-2": "librdkafka"}
POLITE, NOISY = "polite", "noisy"


class Stage:
    """One run of the demo."""

    def __init__(self, screen: Screen, folder: Path, front: Front) -> None:
        self._screen = screen
        self._folder = folder
        self._front = front
        self._children: list[Child] = []
        self._clients: dict[str, Child] = {}
        self._standings: dict[str, Standing] = {}
        self._ports: dict[str, set[int]] = {}
        self._sluice_ports: set[int] = set()
        self._sockets_seen = True
        self._look_s = LOOK_S
        self.comparison: Comparison | None = None
        self.seen: Seen | None = None
        """What Sluice told at the end."""
        self.evidence: Evidence | None = None
        """None: it was not played to its end."""

    async def play(self, script: Script) -> list[Check]:
        """Run the demo. Raises StageError when it cannot be played to its end."""
        try:
            async with trio.open_nursery() as nursery:
                evidence = self.evidence = await self._play(nursery, script)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._front.kill()
                for child in self._children:
                    await child.kill()
        return judge(evidence)

    def standings(self) -> list[Standing]:
        """Return the clients' figures, in the order they are shown."""
        return [self._standings[name] for name in (*PRODUCERS, *READERS) if name in self._standings]

    async def _play(self, nursery: trio.Nursery, script: Script) -> Evidence:
        cluster = await self._child("cluster", ["proxy.demo.cluster"], nursery)
        ready = await cluster.expect(ClusterReady, PATIENCE_S)
        self._screen.note(f"cluster  {_listed(ready.brokers.values())} (embedded, three brokers)")
        await self._front.start(nursery, ready.brokers)
        bootstrap = f"{HOST}:{self._front.bootstrap_port}"
        self._screen.note(
            f"sluice   {bootstrap}, its brokers at {_listed(self._front.advertised.values())}"
        )
        if self._front.dashboard:
            self._screen.note(f"look     {self._front.dashboard} while it runs")
        nursery.start_soon(self._look)
        arguments = [bootstrap, ready.topic, str(ready.partitions)]
        produced, consumed = await self._job(nursery, arguments, script.job_s)
        contestants = await self._contest(nursery, arguments, script) if script.rounds else {}
        self.seen = await self._front.maybe_seen()
        code = await self._front.stop()
        await cluster.hang_up()
        return Evidence(
            brokers=ready.brokers,
            advertised=self._front.advertised,
            bootstrap_port=self._front.bootstrap_port,
            producers=produced,
            readers=consumed,
            contestants=contestants,
            comparison=self.comparison,
            client_ports=self._ports,
            sluice_ports=self._sluice_ports,
            sockets_seen=self._sockets_seen,
            sluice_exit_code=code,
        )

    async def _job(
        self, nursery: trio.Nursery, arguments: list[str], seconds: float
    ) -> tuple[dict[str, Final], dict[str, Final]]:
        """The first part; return the books of producers and readers."""
        # A reader's latency is from the producer's hand to its own.
        readers = [
            await self._client("reader", n, "librdkafka", arguments, nursery) for n in READERS
        ]
        for reader in readers:
            await reader.expect(ClientReady, PATIENCE_S)
        producers = [
            await self._client(name, name, library, arguments, nursery)
            for name, library in PRODUCERS.items()
        ]
        for producer in producers:
            await producer.expect(ClientReady, PATIENCE_S)
        self._screen.note(f"clients  two producers and a group of two readers, {seconds:.0f} s")
        await self._watch(seconds)
        produced = {child.name: await child.finish(PATIENCE_S) for child in producers}
        await self._until_caught_up()
        consumed = {child.name: await child.finish(PATIENCE_S) for child in readers}
        self._clients.clear()
        return produced, consumed

    async def _contest(
        self, nursery: trio.Nursery, arguments: list[str], script: Script
    ) -> dict[str, Final]:
        """The second part; return the books of both clients."""
        self._screen.note(
            f"quotas   a polite producer (kafka-python, 200 requests/s) beside a noisy one "
            f"(librdkafka, all it can), with and without request_rate {LIMIT_PER_S:.0f} "
            f"for client id {NOISY}, {script.contest_s:.0f} s"
        )
        polite = await self._client(POLITE, POLITE, "kafka-python", arguments, nursery)
        noisy = await self._client(NOISY, NOISY, "librdkafka", arguments, nursery)
        for child in (polite, noisy):
            await child.expect(ClientReady, PATIENCE_S)
        rows = [standing.whole() for standing in self.standings()]
        self._look_s = SELDOM_S

        async def limit(requests_per_s: float | None) -> None:
            await self._front.limit(NOISY, requests_per_s)

        def told(progress: Progress) -> None:
            self._screen.compare(rows, progress)

        self.comparison = await Contest(polite, noisy, limit, self._used).play(script, told)
        return {child.name: await child.finish(PATIENCE_S) for child in (polite, noisy)}

    def _used(self) -> Used | None:
        """What CPU all of the play have used so far, and everybody."""
        running = [child.process for child in self._children if child.process.poll() is None]
        pids = {os.getpid(), *(process.pid for process in running)}
        return maybe_used(pids if self._front.pid is None else {*pids, self._front.pid})

    async def _child(
        self,
        name: str,
        module: list[str],
        nursery: trio.Nursery,
        on_message: Callable[[Message], None] = lambda _: None,
    ) -> Child:
        child = Child(name, module, self._folder)
        self._children.append(child)
        await child.start(nursery, on_message)
        return child

    async def _client(
        self, role: str, name: str, library: str, arguments: list[str], nursery: trio.Nursery
    ) -> Child:
        standing = self._standings[name] = Standing(name, library)
        self._ports[name] = set()

        def on_message(message: Message) -> None:
            if isinstance(message, Tick):
                standing.take(message, trio.current_time())

        module = ["proxy.demo.client", role, name, *arguments]
        child = self._clients[name] = await self._child(name, module, nursery, on_message)
        return child

    async def _look(self) -> None:
        while True:
            for name, child in self._clients.items():
                self._seen(child.process, self._ports[name])
            if self._front.pid is not None:
                ports = maybe_remote_ports(self._front.pid)
                self._sluice_ports |= ports or frozenset()
            await trio.sleep(self._look_s)

    def _seen(self, process: trio.Process, ports: set[int]) -> None:
        found = maybe_remote_ports(process.pid)
        if found is not None:
            ports |= found
        elif process.poll() is None:
            self._sockets_seen = False

    async def _watch(self, seconds: float) -> None:
        end_s = trio.current_time() + seconds
        while (left_s := end_s - trio.current_time()) > 0:
            for child in self._clients.values():
                if child.process.poll() is not None:
                    raise StageError(f"{child.name} ended too early\n{child.last_lines()}")
            rows = [standing.now() for standing in self.standings()]
            self._screen.show(rows, trio.current_time(), left_s)
            await trio.sleep(min(LOOK_S, left_s))

    async def _until_caught_up(self) -> None:
        """Wait until the readers have what was acked and nothing more has come for a second."""
        with trio.move_on_after(PATIENCE_S):
            before = -1
            while True:
                consumed = sum(self._standings[name].records for name in READERS)
                acked = sum(self._standings[name].records for name in PRODUCERS)
                if consumed >= acked and consumed == before:
                    return
                before = consumed
                await trio.sleep(1)


def _listed(addresses: Iterable[str]) -> str:
    return ", ".join(addresses)


async def play(
    script: Script,
    screen: Screen,
    front: Callable[[Path], Front] = Sluice,
    page: Path | None = None,
) -> int:
    """Play the demo and show it; return 0 when no check fails, else 1. The page of the run is written to `page`."""
    began_s, began = time.monotonic(), time.strftime("%d %B %Y, %H:%M")
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as name, screen:
        before = front(Path(name))
        stage = Stage(screen, Path(name), before)
        try:
            checks = await stage.play(script)
        except* StageError as group:
            for error in group.exceptions:
                screen.note(f"The demo could not be played: {error}")
            if said := before.last_lines():
                screen.note(said)
        rows = [standing.whole() for standing in stage.standings()]
        if checks:
            screen.close(rows, stage.comparison, checks)
    if page is not None and stage.evidence is not None:
        about = (began, f"{time.monotonic() - began_s:.0f} s", *_machine())
        screen.note(_kept(page, _run(stage, stage.evidence, rows, checks, about)))
    return 0 if checks and not any(check.holds is False for check in checks) else 1


def _run(
    stage: Stage,
    evidence: Evidence,
    rows: Sequence[Row],
    checks: Sequence[Check],
    about: Sequence[str],
) -> Run:
    return Run(
        rows=rows,
        comparison=stage.comparison,
        checks=checks,
        seen=stage.seen,
        brokers=evidence.brokers,
        advertised=evidence.advertised,
        bootstrap_port=evidence.bootstrap_port,
        client_ports=evidence.client_ports,
        about=about,
    )


def _kept(page: Path, run: Run) -> str:
    """Write the page, and say where; a page that cannot be written changes no verdict."""
    try:
        write(page, run)
    except OSError as error:
        return f"The page of this run could not be written: {error}"
    return f"The page of this run: {page.resolve()}"


def _machine() -> tuple[str, ...]:
    return (
        f"Sluice {version('kafka-sluice')}",
        f"Python {platform.python_version()}",
        f"{platform.system()}, {os.cpu_count()} CPUs",
    )
