"""Case f: clients that are merely slow, and honest producers beside them.

Each slow client announces a legal Produce of 60 MB and sends 100 kB of it per second. It comes again when it is
disconnected. An honest client asks one request after the other, of 2 KB and of 1 MB; each is one connection. The figure
is the time from the first byte sent to the acknowledgement.
"""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.goals import max_goal
from bench.harness.figures import median, quantile
from bench.memory.connection import Connection, Lost
from bench.memory.figures import Case, seconds
from bench.memory.frames import MIB, error_of, produce_frame
from bench.memory.kafka import FLEETING, Kafka
from bench.memory.proxies import SluiceSetup, no_proxy
from bench.running import Running
from bench.variants import SLUICE, Variant

SLOW_BYTES: Final = 60_000_000
BYTES_PER_SECOND: Final = 100_000
TICK_SECONDS: Final = 0.1
SIZES: Final = (2_000, 1_000_000)
POOL: Final = 64 * MIB
SECONDS: Final = 40.0
SETTLED_SECONDS: Final = 5.0
"""The slow ones have announced their requests, and the first of them hold what they get."""


@dataclass(frozen=True, slots=True)
class Way:
    """Slow clients from so many addresses; `whole`: a policy needs each Produce whole. `must_s`: for each size."""

    title: str
    clients: int
    addresses: int
    whole: bool
    must_s: tuple[float, float]


WAYS: Final = (
    Way("20 slow, streaming", 20, 1, whole=False, must_s=(0.1, 1.0)),
    Way("10 slow, whole", 10, 1, whole=True, must_s=(0.1, 1.0)),
    Way("200 slow from 200 addresses, streaming", 200, 200, whole=False, must_s=(5.0, 5.0)),
    Way("200 slow from 200 addresses, whole", 200, 200, whole=True, must_s=(5.0, 5.0)),
)


@dataclass(slots=True)
class SlowClients:
    """The slow clients of a way, in a thread, until the block ends. `returned`: how often one was disconnected."""

    port: int
    way: Way
    frame: bytes
    returned: int = 0
    problems: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(10)

    def _connect(self, number: int) -> Connection:
        client = Connection(self.port, f"127.0.1.{1 + number % self.way.addresses}")
        client.ask(self.frame, time.monotonic())
        return client

    def _run(self) -> None:
        try:
            clients = [self._connect(number) for number in range(self.way.clients)]
            while not self._ending.wait(TICK_SECONDS):
                for number, client in enumerate(clients):
                    if isinstance(client.read(), Lost) or isinstance(
                        client.write(int(BYTES_PER_SECOND * TICK_SECONDS)), Lost
                    ):
                        self.returned += 1
                        client.close()
                        clients[number] = self._connect(number)
            for client in clients:
                client.close(reset=True)
        except OSError as error:
            self.problems.append(f"slow clients: {error}")


def ask(port: int, frame: bytes) -> float:
    """Send one request on a connection of its own; return the seconds until its acknowledgement.

    Raises:
        ConnectionError: there was none within PATIENCE_SECONDS.
    """
    client = Connection(port)
    try:
        began_s = time.monotonic()
        reply = client.demand(frame)
        if error_of(reply):
            raise ConnectionError(f"error {error_of(reply)}")
        return time.monotonic() - began_s
    finally:
        client.close()


def measure(kafka: Kafka, folder: Path, run_s: float = SECONDS) -> Case:
    """Measure each way through Sluice; the first one also without a proxy, for comparison."""
    case = Case(
        "f",
        "f. Clients that are merely slow",
        f"Slow clients announce a Produce of {SLOW_BYTES // 1_000_000} MB each and send {BYTES_PER_SECOND // 1000} kB "
        f"of it per second, for {run_s:g} s. Meanwhile honest clients from 127.0.0.1 send requests of 2 KB and of 1 MB "
        "in turn, each on a connection of its own. The pool has 64 MiB.",
        heads=[
            *("", "2 KB acked", "p50, s", "greatest, s"),
            *("1 MB acked", "p50, s", "greatest, s", "slow clients disconnected"),
        ],
    )
    topic = kafka.topic(1, **FLEETING)
    frames = [produce_frame(topic, size) for size in SIZES]
    slow_frame = produce_frame(topic, SLOW_BYTES)
    for way in WAYS:
        setup = SluiceSetup(
            {"queued_max_request_bytes": POOL}, {"socket_request_max_bytes": POOL - 4}, way.whole
        )
        _measure_way(
            case,
            way,
            setup.variant(f"{SLUICE}, {way.title}"),
            kafka,
            folder,
            frames,
            slow_frame,
            run_s,
        )
    direct = no_proxy()
    _measure_way(case, WAYS[0], direct, kafka, folder, frames, slow_frame, run_s)
    return case


def _measure_way(
    case: Case,
    way: Way,
    variant: Variant,
    kafka: Kafka,
    folder: Path,
    frames: list[bytes],
    slow_frame: bytes,
    run_s: float,
) -> None:
    took_s: list[list[float]] = [[] for _ in frames]
    problems: list[str] = []
    place = folder / str(len(case.rows))
    with (
        Running(variant, kafka.port, place) as proxy,
        SlowClients(proxy.port, way, slow_frame) as slow,
    ):
        time.sleep(SETTLED_SECONDS)
        ends_s = time.monotonic() + run_s
        while time.monotonic() < ends_s:
            for frame, took in zip(frames, took_s, strict=True):
                try:
                    took.append(ask(proxy.port, frame))
                except OSError as error:
                    problems.append(f"{len(frame)} bytes: {type(error).__name__} {error}")
            time.sleep(TICK_SECONDS)
    problems += [*slow.problems, *proxy.problems]
    cells = [variant.name]
    for took in took_s:
        cells += [f"{len(took):,}", seconds(median(took), 3), seconds(max(took, default=None), 3)]
    case.rows.append([*cells, str(slow.returned)])
    if variant.command is not None:
        for size, took, must_s in zip(SIZES, took_s, way.must_s, strict=True):
            kind = "2 KB" if size == SIZES[0] else "1 MB"
            what = f"{way.title}: honest produce of {kind}, p99"
            case.goals.append(max_goal(what, "s", quantile(took, 0.99), must_s, 3))
        what = f"{way.title}: problems of honest clients and of Sluice"
        case.goals.append(max_goal(what, "", len(problems), 0, 0))
    case.note_problems(problems, f"{variant.name}: ")
