"""Run the shapes through the variants, and measure each variant's footprint.

All proxies run at once. Each round measures every shape through every variant in shuffled order, after a warm-up. CPU
time is read while no request is in flight, before the first measured request and after the last reply. A variant that
fails is recorded with the reason and skipped for that shape from then on.
"""

import contextlib
import json
import random
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.build import build
from bench.figures import Footprint, Sample, Samples
from bench.harness import BenchError
from bench.harness.machine import cores, raise_descriptor_limit
from bench.harness.ports import free_ports
from bench.harness.processes import Program
from bench.harness.usage import cpu_ns, resident_bytes
from bench.running import Running
from bench.shapes import Shape
from bench.variants import Variant

# ApiVersions v0, correlation id 0, client id `bench`: the smallest request that every Kafka proxy answers.
FIRST_REQUEST = bytes.fromhex("0000000f 0012 0000 00000000 0005") + b"bench"
IDLE_CONNECTIONS = 100


class Bench:
    """A broker stub, the proxies in front of it, and the load on them."""

    def __init__(self, programs: dict[str, Path], folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.load_core = cores()[1]
        self._count = 0
        self.broker_port = free_ports()
        self.broker = self._start([str(programs["broker"]), str(self.broker_port), "0"], "broker")
        self.broker.wait_accepting(self.broker_port)

    def close(self) -> None:
        """End the broker."""
        self.broker.stop()

    def rounds(
        self,
        variants: list[Variant],
        shapes: list[Shape],
        rounds: int,
        seed: int,
        first_warm_seconds: float = 0,
    ) -> Iterator[tuple[int, Shape, Running]]:
        """Yield (round, shape, proxy), in shuffled order within each round; all proxies run meanwhile."""
        order = random.Random(seed)
        with self.proxies(variants) as running:
            if first_warm_seconds:
                given = [
                    running[each.name] for each in variants if each.given and each.name in running
                ]
                self.warm_up(shapes, given, first_warm_seconds)
            for nth in range(rounds):
                for shape in order.sample(shapes, len(shapes)):
                    for name in order.sample(list(running), len(running)):
                        yield nth, shape, running[name]
                print(f"round {nth + 1} of {rounds}", flush=True)

    def _start(self, command: list[str], name: str, *, piped: bool = False) -> Program:
        self._count += 1
        log = self.folder / f"{self._count}-{name}.log"
        return Program(command, self.load_core, log, piped=piped)

    @contextlib.contextmanager
    def proxies(self, variants: list[Variant]) -> Iterator[dict[str, Running]]:
        """Run all of them; yield them by name.

        A peer that does not start is left out; a Sluice that does not start is a BenchError.
        """
        running: dict[str, Running] = {}
        with contextlib.ExitStack() as stack:
            for variant in variants:
                try:
                    running[variant.name] = stack.enter_context(self.start_proxy(variant))
                except BenchError as error:
                    if not variant.peer:
                        raise
                    print(f"left out: {error}", flush=True)
            yield running

    def start_proxy(self, variant: Variant) -> Running:
        """Start a proxy; return when it accepts connections."""
        self._count += 1
        return Running(variant, self.broker_port, self.folder / f"{self._count}-{variant.name}")

    def start_load(self, shape: Shape, port: int, seconds: float, warm_seconds: float) -> Program:
        """Start a load program, which prints `ready` after its warm-up and waits for `go`."""
        arguments = shape.arguments(port, seconds, warm_seconds)
        command = [str(self.programs["load"]), *arguments]
        return self._start(command, "load", piped=True)

    def run(
        self, shape: Shape, proxy: Running, nth: int, seconds: float, warm_seconds: float
    ) -> Sample:
        """Run a shape once; return the figures that the load printed, and the proxy's CPU per request.

        Raises:
            BenchError: the load failed.
        """
        load = self.start_load(shape, proxy.port, seconds, warm_seconds)
        try:
            load.line(warm_seconds + 60)
            before = cpu_ns(proxy.pid) if proxy.pid else 0
            load.say("go\n")
            said: dict[str, float] = json.loads(load.line(seconds + 60))
            spent_us = (cpu_ns(proxy.pid) - before) / 1000 if proxy.pid else 0.0
        finally:
            load.stop()
        load.log.unlink()
        requests = said["requests"]
        counts = (requests, said["seconds"], said["bytes"], spent_us / max(1, requests))
        return Sample(shape.name, proxy.name, nth, *counts, said["p50_us"], said["p99_us"])

    def warm_up(self, shapes: list[Shape], proxies: list[Running], seconds: float) -> None:
        """Run each shape through each proxy, and keep no figure: a virtual machine compiles what is used often.

        A run that fails is not reported here: it fails again when it is measured.
        """
        for shape in shapes:
            for proxy in proxies:
                with contextlib.suppress(BenchError):
                    self.run(shape, proxy, 0, seconds, 0)
        print(f"{seconds:g} s of each shape through each given peer, not measured", flush=True)

    def footprint(
        self, variant: Variant, pairs: list[int], starts: int, idle_seconds: float
    ) -> Footprint:
        """Measure start-up, memory and idle CPU of a variant that nothing else uses."""
        accept, answer = [], []
        for left in reversed(range(starts)):
            began = time.monotonic()
            with self.start_proxy(variant) as proxy:
                accept.append(time.monotonic() - began)
                first_answer(proxy.port)
                answer.append(time.monotonic() - began)
                if left == 0:
                    resident, idle = self._at_rest(proxy, pairs, idle_seconds)
        return Footprint(variant.name, tuple(accept), tuple(answer), resident, idle)

    def _at_rest(
        self, proxy: Running, pairs: list[int], idle_seconds: float
    ) -> tuple[dict[int, int], float]:
        assert proxy.pid is not None, "there is no proxy"
        time.sleep(0.2)  # let start-up finish
        resident = {0: resident_bytes(proxy.pid)}
        with self._idle(proxy.port, IDLE_CONNECTIONS):
            before = cpu_ns(proxy.pid)
            time.sleep(idle_seconds)
            idle = (cpu_ns(proxy.pid) - before) / idle_seconds / 1e7
        with contextlib.ExitStack() as held:
            for count in pairs:
                held.enter_context(self._idle(proxy.port, count - max(resident)))
                resident[count] = resident_bytes(proxy.pid)
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
    first_warm_seconds: float = 0,
) -> Samples:
    """Run every shape through every variant `rounds` times; print and record failures."""
    samples = Samples()
    for nth, shape, proxy in bench.rounds(variants, shapes, rounds, seed, first_warm_seconds):
        key = shape.name, proxy.name
        if key in samples.failures:
            continue
        try:
            samples.add(bench.run(shape, proxy, nth, seconds, warm_seconds))
        except BenchError as error:
            samples.failures[key] = str(error)
            print(f"{shape.name} through {proxy.name}: {error}", flush=True)
    return samples


@contextlib.contextmanager
def running_bench(made: type[Bench] = Bench) -> Iterator[Bench]:
    """Build the programs and run the broker stub for the duration of the block.

    Raises:
        BenchError: the C programs cannot be built.
    """
    raise_descriptor_limit()
    programs = build()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        bench = made(programs, Path(folder))
        try:
            yield bench
        finally:
            bench.close()
