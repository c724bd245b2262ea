"""Runs the shapes through the variants, and takes each variant's footprint.

Rules: all proxies are alive at once, the order is shuffled anew in each round, rounds are
interleaved, every run is warmed up. CPU time is read while nothing is in flight, before the first
measured request and after the last reply, so it is exactly these requests'. A variant that fails
is recorded with its reason and left out of that shape from then on.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from typing import TYPE_CHECKING

from bench.build import BenchError
from bench.figures import Footprint, Sample, Samples
from bench.processes import (
    Program,
    cores,
    cpu_ns,
    free_ports,
    resident_bytes,
    wait_accepting,
)
from bench.shapes import Shape
from bench.variants import SLUICE, Place, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_PORT = 21000
# ApiVersions v0, correlation id 0, client id `bench`: the smallest thing every Kafka proxy answers.
FIRST_REQUEST = bytes.fromhex("0000000f 0012 0000 00000000 0005") + b"bench"
IDLE_CONNECTIONS = 100


class Bench:
    """A broker, the proxies before it, and the load on them."""

    def __init__(self, programs: dict[str, Path], folder: Path, version: int) -> None:
        self.programs = programs
        self.folder = folder
        self.version = version
        self.proxy_core, self.load_core = cores()
        self._next_port = FIRST_PORT
        self._count = 0
        self.broker_port = self._port(1)
        self.broker = self._start(
            [str(programs["broker"]), str(self.broker_port), "0"], self.load_core, "broker"
        )
        wait_accepting(self.broker, self.broker_port)

    def close(self) -> None:
        """Ends the broker."""
        self.broker.stop()

    def _port(self, count: int) -> int:
        port = free_ports(count, self._next_port)
        self._next_port = port + count
        return port

    def _start(self, command: list[str], core: int, name: str) -> Program:
        self._count += 1
        return Program(command, core, self.folder / f"{self._count}-{name}.log")

    def start_proxy(self, variant: Variant) -> tuple[Program, int]:
        """The proxy's process and its port; not yet known to accept."""
        assert variant.command is not None
        self._count += 1
        folder = self.folder / f"{self._count}-{variant.name}"
        folder.mkdir()
        port = self._port(2)  # Sluice: bootstrap and one node
        command = variant.command(Place(port, self.broker_port, folder))
        return self._start(command, self.proxy_core, variant.name), port

    @contextlib.contextmanager
    def proxies(self, variants: list[Variant]) -> Iterator[dict[str, tuple[Program | None, int]]]:
        """All of them running: name -> (process, port); direct is the broker's port alone."""
        running: dict[str, tuple[Program | None, int]] = {}
        with contextlib.ExitStack() as stack:
            for variant in variants:
                if variant.command is None:
                    running[variant.name] = None, self.broker_port
                    continue
                program, port = self.start_proxy(variant)
                stack.callback(program.stop)
                try:
                    wait_accepting(program, port)
                except BenchError as error:
                    if variant.name == SLUICE:
                        raise
                    print(f"left out: {error}", flush=True)
                    continue
                running[variant.name] = program, port
            yield running

    def start_load(self, shape: Shape, port: int, seconds: float, warm_seconds: float) -> Program:
        """A load program, which says `ready` when it is warm, and waits for `go`."""
        arguments = shape.arguments(port, seconds, warm_seconds, self.version)
        return self._start([str(self.programs["load"]), *arguments], self.load_core, "load")

    def run(
        self, shape: Shape, at: tuple[Program | None, int], seconds: float, warm_seconds: float
    ) -> dict[str, float]:
        """One run: what load printed, and `cpu_us` per request of the proxy's tree."""
        proxy, port = at
        load = self.start_load(shape, port, seconds, warm_seconds)
        try:
            load.line(warm_seconds + 60)
            before = cpu_ns(proxy.pid) if proxy else 0
            load.say("go\n")
            said: dict[str, float] = json.loads(load.line(seconds + 60))
            spent = (cpu_ns(proxy.pid) if proxy else 0) - before
        finally:
            load.stop()
        load.log.unlink()
        return said | {"cpu_us": spent / 1000 / max(1, said["requests"])}

    def footprint(
        self, variant: Variant, pairs: list[int], starts: int, idle_seconds: float
    ) -> Footprint:
        """Start-up, memory and idle CPU of one variant, each on a process of its own."""
        accept, answer = [], []
        for left in reversed(range(starts)):
            began = time.monotonic()
            program, port = self.start_proxy(variant)
            try:
                wait_accepting(program, port)
                accept.append(time.monotonic() - began)
                first_answer(port)
                answer.append(time.monotonic() - began)
                if left == 0:
                    resident, idle = self._at_rest(program, port, pairs, idle_seconds)
            finally:
                program.stop()
        return Footprint(variant.name, tuple(accept), tuple(answer), resident, idle)

    def _at_rest(
        self, program: Program, port: int, pairs: list[int], idle_seconds: float
    ) -> tuple[dict[int, int], float]:
        time.sleep(0.2)  # what start-up left to do
        resident = {0: resident_bytes(program.pid)}
        with self._idle(port, IDLE_CONNECTIONS):
            before = cpu_ns(program.pid)
            time.sleep(idle_seconds)
            idle = (cpu_ns(program.pid) - before) / idle_seconds / 1e7
        with contextlib.ExitStack() as held:
            for count in pairs:
                held.enter_context(self._idle(port, count - max(resident)))
                resident[count] = resident_bytes(program.pid)
        return resident, idle

    @contextlib.contextmanager
    def _idle(self, port: int, connections: int) -> Iterator[None]:
        """Connections with one answered request each, held open."""
        shape = Shape("idle", "idle", connections, kind="idle")
        command = [str(self.programs["load"]), *shape.arguments(port, 0, 0, self.version)]
        load = self._start(command, self.load_core, "load")
        try:
            load.line(60)
            time.sleep(0.3)
            yield
        finally:
            load.stop()


def first_answer(port: int, timeout_seconds: float = 30) -> None:
    """Asks for ApiVersions until it is answered; a refused or reset connection is tried again."""
    until = time.monotonic() + timeout_seconds
    while time.monotonic() < until:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5) as asker,
        ):
            asker.sendall(FIRST_REQUEST)
            if asker.recv(4):
                return
        time.sleep(0.001)
    raise BenchError(f"port {port} accepts, but does not answer")


def measure(
    bench: Bench,
    variants: list[Variant],
    shapes: list[Shape],
    rounds: int,
    seconds: float,
    warm_seconds: float,
    seed: int,
) -> Samples:
    """Every shape through every variant, `rounds` times."""
    samples, order = Samples(), random.Random(seed)
    with bench.proxies(variants) as running:
        for nth in range(rounds):
            for shape in order.sample(shapes, len(shapes)):
                for name in order.sample(list(running), len(running)):
                    if (shape.name, name) in samples.failures:
                        continue
                    try:
                        said = bench.run(shape, running[name], seconds, warm_seconds)
                    except BenchError as error:
                        samples.failures[shape.name, name] = str(error)
                        print(f"{shape.name} through {name}: {error}", flush=True)
                        continue
                    samples.add(sample_of(shape, name, nth, said))
            print(f"round {nth + 1} of {rounds}", flush=True)
    return samples


def sample_of(shape: Shape, variant: str, nth: int, said: dict[str, float]) -> Sample:
    """What one run printed, as a Sample."""
    return Sample(
        shape=shape.name,
        variant=variant,
        round=nth,
        requests=int(said["requests"]),
        seconds=said["seconds"],
        bytes=int(said["bytes"]),
        cpu_us=said["cpu_us"],
        p50_us=said["p50_us"],
        p99_us=said["p99_us"],
    )
