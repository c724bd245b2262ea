"""Run the shapes through the variants, and measure each variant's footprint.

All proxies run at once. Each round measures every shape through every variant in shuffled order, after a warm-up. CPU
time is read while no request is in flight, before the first measured request and after the last reply. A variant that
fails is recorded with the reason and skipped for that shape from then on.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from typing import TYPE_CHECKING

from bench.figures import Footprint, Sample, Samples
from bench.harness import BenchError
from bench.harness.machine import cores
from bench.harness.ports import free_ports
from bench.harness.processes import Program
from bench.harness.usage import cpu_ns, resident_bytes
from bench.shapes import Shape
from bench.variants import Place, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# ApiVersions v0, correlation id 0, client id `bench`: the smallest request that every Kafka proxy answers.
FIRST_REQUEST = bytes.fromhex("0000000f 0012 0000 00000000 0005") + b"bench"
IDLE_CONNECTIONS = 100


class Bench:
    """A broker stub, the proxies in front of it, and the load on them."""

    def __init__(self, programs: dict[str, Path], folder: Path, version: int) -> None:
        self.programs = programs
        self.folder = folder
        self.version = version
        self.proxy_core, self.load_core = cores()
        self._count = 0
        self.broker_port = free_ports()
        self.broker = self._start(
            [str(programs["broker"]), str(self.broker_port), "0"], self.load_core, "broker"
        )
        self.broker.wait_accepting(self.broker_port)

    def close(self) -> None:
        """End the broker."""
        self.broker.stop()

    def _start(self, command: list[str], core: int, name: str, *, piped: bool = False) -> Program:
        self._count += 1
        return Program(command, core, self.folder / f"{self._count}-{name}.log", piped=piped)

    def start_proxy(self, variant: Variant) -> tuple[Program, int]:
        """Start a proxy; return its process and its port, which may not accept yet."""
        assert variant.command is not None
        self._count += 1
        folder = self.folder / f"{self._count}-{variant.name}"
        folder.mkdir()
        port = free_ports(count=2)  # Sluice: bootstrap and one node
        command = variant.command(Place(port, self.broker_port, folder))
        return self._start(command, self.proxy_core, variant.name), port

    @contextlib.contextmanager
    def proxies(self, variants: list[Variant]) -> Iterator[dict[str, tuple[Program | None, int]]]:
        """Run all of them; yield name -> (process, port). `direct` has no process and the broker's port.

        A peer that does not start is left out; a Sluice that does not start is a BenchError.
        """
        running: dict[str, tuple[Program | None, int]] = {}
        with contextlib.ExitStack() as stack:
            for variant in variants:
                if variant.command is None:
                    running[variant.name] = None, self.broker_port
                    continue
                program, port = self.start_proxy(variant)
                stack.callback(program.stop)
                try:
                    program.wait_accepting(port)
                except BenchError as error:
                    if not variant.peer:
                        raise
                    print(f"left out: {error}", flush=True)
                    continue
                running[variant.name] = program, port
            yield running

    def start_load(self, shape: Shape, port: int, seconds: float, warm_seconds: float) -> Program:
        """Start a load program, which prints `ready` after its warm-up and waits for `go`."""
        arguments = shape.arguments(port, seconds, warm_seconds, self.version)
        command = [str(self.programs["load"]), *arguments]
        return self._start(command, self.load_core, "load", piped=True)

    def run(
        self, shape: Shape, at: tuple[Program | None, int], seconds: float, warm_seconds: float
    ) -> dict[str, float]:
        """Run a shape once; return the figures that the load printed, and `cpu_us`, the proxy's CPU per request.

        Raises:
            BenchError: the load failed.
        """
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
        """Measure start-up, memory and idle CPU of a variant that nothing else uses."""
        accept, answer = [], []
        for left in reversed(range(starts)):
            began = time.monotonic()
            program, port = self.start_proxy(variant)
            try:
                program.wait_accepting(port)
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
        time.sleep(0.2)  # let start-up finish
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
        """Hold connections open, each with one answered request."""
        shape = Shape("idle", "idle", connections, kind="idle")
        load = self.start_load(shape, port, 0, 0)
        try:
            load.line(60)
            time.sleep(0.3)
            yield
        finally:
            load.stop()


def first_answer(port: int, timeout_seconds: float = 30) -> None:
    """Send ApiVersions until it is answered; connect again after a refusal or a reset.

    Raises:
        BenchError: no answer came within `timeout_seconds`.
    """
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
    raise BenchError(f"port {port} accepts, but did not answer within {timeout_seconds:g} s")


def measure(
    bench: Bench,
    variants: list[Variant],
    shapes: list[Shape],
    rounds: int,
    seconds: float,
    warm_seconds: float,
    seed: int,
) -> Samples:
    """Run every shape through every variant `rounds` times; print and record failures."""
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
                    figures = (said["cpu_us"], said["p50_us"], said["p99_us"])
                    counts = (int(said["requests"]), said["seconds"], int(said["bytes"]))
                    samples.add(Sample(shape.name, name, nth, *counts, *figures))
            print(f"round {nth + 1} of {rounds}", flush=True)
    return samples
