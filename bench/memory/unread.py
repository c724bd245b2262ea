"""Case b: 1,000 consumers that request 20 MB each and never read, and honest clients.

Each hostile consumer connects from 127.0.0.2, sends one Fetch, and waits until its reply begins; then the next one
connects. The bytes held for each are read from the kernel (`bench.memory.held`) when they no longer change. Honest
clients write and read records. Their baseline is measured before the first consumer and compared with the time in
which all consumers are connected.
"""

import select
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.goals import max_goal
from bench.harness import BenchError
from bench.harness.figures import median, quantile
from bench.harness.usage import peak_bytes, reset_peak, resident_bytes
from bench.memory.connection import Connection
from bench.memory.figures import Case, mib, milliseconds
from bench.memory.frames import KIB, MIB, fetch_frame, produce_frame
from bench.memory.held import held_bytes, socket_inodes
from bench.memory.honest_clients import HonestClients, Took
from bench.memory.kafka import Kafka
from bench.memory.proxies import SluiceSetup
from bench.running import Running

CONSUMERS: Final = 1000
HOSTILE: Final = "127.0.0.2"
HONEST: Final = 4
REPLY_BYTES: Final = 20_000_000
RECORD_BYTES: Final = 2 * MIB
WINDOW_BYTES: Final = 32 * KIB
BASELINE_SECONDS: Final = 10.0
STAND_SECONDS: Final = 10.0
MAX_MEDIAN_KIB: Final = 80
MAX_KIB: Final = 256
SLOWER: Final = 2.0
_LOOKS: Final = 50


def measure(
    kafka: Kafka,
    folder: Path,
    consumers: int = CONSUMERS,
    baseline_s: float = BASELINE_SECONDS,
    stand_s: float = STAND_SECONDS,
) -> Case:
    """Measure a baseline, the consumers connecting one after another, and the time with all of them."""
    case = Case(
        "b",
        f"b. {consumers:,} consumers of 20 MB that never read",
        f"{consumers:,} connections request {REPLY_BYTES / 1e6:g} MB each and never read. Sluice holds what it "
        "read from the broker's socket minus what it wrote to the client's; the kernel counts both. "
        f"{HONEST} librdkafka clients repeatedly write a record of 1 KiB and read it back: before the "
        "consumers, while they connect, and with all connected.",
        heads=[
            "honest clients",
            "rounds",
            *("acked p50, ms", "p99, ms", "read p50, ms", "p99, ms"),
        ],
    )
    fetch = fetch_frame(_filled_topic(kafka), REPLY_BYTES)
    honest_topic = kafka.topic(HONEST)
    with ExitStack() as stack:
        proxy = stack.enter_context(Running(SluiceSetup().variant(), kafka.port, folder))
        honest = stack.enter_context(HonestClients(proxy.port, honest_topic, HONEST, reads=True))
        assert proxy.pid is not None, "there is no proxy"
        base = resident_bytes(proxy.pid)
        reset_peak(proxy.pid)
        began = time.monotonic()
        time.sleep(baseline_s)
        honest.await_round(began)
        _await_still(proxy.pid)
        come = time.monotonic()
        crowd = _open(stack, proxy, fetch, consumers)
        stand = time.monotonic()
        time.sleep(stand_s)
        honest.await_round(stand)
        ended = time.monotonic()
        held = _settled(proxy.pid, kafka.port)
        resident = resident_bytes(proxy.pid)
        peak = peak_bytes(proxy.pid)
        for each in crowd:
            each.close(reset=True)
    before, coming, standing = (
        honest.between(*span) for span in ((began, come), (come, stand), (stand, ended))
    )
    for title, rounds in (
        ("before", before),
        (f"while the consumers connect ({stand - come:.0f} s)", coming),
        (f"with all of them ({ended - stand:.0f} s)", standing),
    ):
        case.rows.append(_row(title, rounds))
    slower = _p99(standing) / _p99(before)
    problems = [*honest.problems, *proxy.problems]
    case.goals += [
        max_goal("held for a consumer, median", "KiB", median(held) / KIB, MAX_MEDIAN_KIB, 1),
        max_goal("held for a consumer, greatest", "KiB", max(held) / KIB, MAX_KIB, 1),
        max_goal("honest clients' p99 with all consumers, times the baseline", "x", slower, SLOWER),
        max_goal("problems of honest clients and of Sluice", "", len(problems), 0, 0),
    ]
    case.said = (
        f"held in total {mib(sum(held))} MiB for {len(held)} consumers; "
        f"resident {mib(base)} MiB before, {mib(resident)} MiB with them "
        f"({(resident - base) / len(held) / KIB:.1f} KiB each), peak {mib(peak)} MiB"
    )
    case.note_problems(problems)
    return case


def _filled_topic(kafka: Kafka) -> str:
    """Create a topic with enough records for one reply; return its name."""
    topic = kafka.topic()
    frame = produce_frame(topic, RECORD_BYTES)
    client = Connection(kafka.port)
    for _ in range(REPLY_BYTES // RECORD_BYTES + 2):
        client.demand(frame)
    client.close()
    return topic


def _open(stack: ExitStack, proxy: Running, fetch: bytes, count: int) -> list[Connection]:
    """Connect one after another; the reply of each begins before the next connects."""
    crowd = []
    poll = select.poll()
    for number in range(count):
        client = Connection(proxy.port, HOSTILE, WINDOW_BYTES)
        stack.callback(client.close)
        client.ask(fetch, 0.0)
        client.write()
        poll.register(client, select.POLLIN)
        if not poll.poll(20_000):
            raise BenchError(f"consumer {number} got no reply within 20 s")
        poll.unregister(client)
        crowd.append(client)
    return crowd


def _await_still(pid: int) -> None:
    """Wait until no connection comes or goes for a second, because `held` pairs connections by their descriptors."""
    before: list[int] = []
    for _ in range(_LOOKS):
        if (now := socket_inodes(pid)) == before:
            break
        before = now
        time.sleep(1)


def _settled(pid: int, broker_port: int) -> Sequence[int]:
    """Return the bytes held for each consumer, once they no longer change."""
    seen: list[int] = []
    for _ in range(_LOOKS):
        now = held_bytes(pid, HOSTILE, ("127.0.0.1", broker_port))
        if now == seen:
            break
        seen = now
        time.sleep(0.2)
    if not seen:
        raise BenchError("all consumers are disconnected")
    return seen


def _p99(rounds: Sequence[Took]) -> float:
    return quantile([took.read_s for took in rounds], 0.99)


def _row(title: str, rounds: Sequence[Took]) -> list[str]:
    if not rounds:
        return [title, "0", *"----"]
    acked, read = [took.acked_s for took in rounds], [took.read_s for took in rounds]
    return [
        title,
        f"{len(rounds):,}",
        milliseconds(statistics.median(acked)),
        milliseconds(quantile(acked, 0.99)),
        milliseconds(statistics.median(read)),
        milliseconds(quantile(read, 0.99)),
    ]
