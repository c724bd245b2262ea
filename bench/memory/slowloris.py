"""Case c: 500 connections that announce 16 MiB and send a byte every 10 s, and honest producers.

The hostile clients connect from 127.0.0.2 at about the same time and send the whole header of a Produce, so that its
API is known. The honest clients connect from 127.0.0.1. The figure is the time until the proxy has closed the last
hostile connection; one that is never closed counts as the whole time. Afterwards the whole pool must be free.
"""

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.goals import max_goal, min_goal
from bench.harness.figures import median, quantile
from bench.memory.connection import Connection, Lost
from bench.memory.figures import Case, milliseconds, seconds
from bench.memory.frames import FRAMING, KIB, LARGE, MIB, error_of, produce_frame
from bench.memory.honest_clients import HonestClients
from bench.memory.kafka import Kafka
from bench.memory.proxies import SluiceSetup, Watch
from bench.running import Running
from proxy.core.memory.pool_part import LARGE_PART

ATTACKERS: Final = 500
HOSTILE: Final = "127.0.0.2"
HONEST: Final = 4
POOL: Final = 64 * MIB
BOUND: Final = POOL + FRAMING + LARGE - 1
MAX_SHARE: Final = 0.25
HEAD_BYTES: Final = 128
"""The bytes sent at once; they include header, acks, topic and partition."""
DRIP_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 40.0
CLOSED_SECONDS: Final = 35.0
HONEST_P99_S: Final = 0.5
BASELINE_SECONDS: Final = 5.0
OTHER: Final = 2 * MIB
SHORT_OF_FULL: Final = (64 * KIB, MIB, 4 * MIB, 16 * MIB, 32 * MIB)
"""Bytes that may be missing from the pool, tried in this order."""
ADMITTED_SECONDS: Final = 3.0
REFUSED_SECONDS: Final = 1.0


@dataclass(slots=True)
class Slowloris:
    """The hostile connections. `came` and `closed`: when each connected and when the proxy closed it, by descriptor."""

    port: int
    count: int
    frame: bytes
    came: dict[int, float] = field(default_factory=dict)
    closed: dict[int, float] = field(default_factory=dict)
    _crowd: dict[int, Connection] = field(default_factory=dict)

    def begin(self) -> None:
        """Connect all of them and send their first bytes."""
        for _ in range(self.count):
            client = Connection(self.port, HOSTILE)
            client.ask(self.frame, time.monotonic())
            client.write(HEAD_BYTES)
            self._crowd[client.fileno()] = client
            self.came[client.fileno()] = client.began_s

    def run(self, run_s: float) -> None:
        """Send a byte on each every ten seconds until all are closed or the time is up; then close the rest."""
        poll = select.epoll()
        for number in self._crowd:
            poll.register(number, select.EPOLLIN)
        began = time.monotonic()
        drip = began + DRIP_SECONDS
        while len(self.closed) < self.count and (now := time.monotonic()) < began + run_s:
            for number, _ in poll.poll(0.1):
                if isinstance(self._crowd[number].read(), Lost):
                    self._end(poll, number)
            if now >= drip:
                drip += DRIP_SECONDS
                for number in self._crowd.keys() - self.closed.keys():
                    if isinstance(self._crowd[number].write(1), Lost):
                        self._end(poll, number)
        poll.close()
        for client in self._crowd.values():
            client.close()

    def _end(self, poll: select.epoll, number: int) -> None:
        self.closed[number] = time.monotonic()
        poll.unregister(number)

    def lasted_s(self) -> list[float]:
        """Return the lifetime of each connection, seconds; an open one counts until now."""
        last = time.monotonic()
        return [self.closed.get(number, last) - came for number, came in self.came.items()]


def measure(
    kafka: Kafka,
    folder: Path,
    attackers: int = ATTACKERS,
    baseline_s: float = BASELINE_SECONDS,
    watch_s: float = WATCH_SECONDS,
) -> Case:
    """Measure a baseline, the attack, and the free pool afterwards."""
    case = Case(
        "c",
        f"c. {attackers} slowloris connections, a pool of 64 MiB",
        f"{attackers} connections from one address announce a Produce of 16 MiB, send its first "
        f"{HEAD_BYTES} bytes and then one byte every {DRIP_SECONDS:g} s. A policy needs every Produce whole; an "
        f"address may hold {MAX_SHARE:.0%} of the pool. {HONEST} librdkafka producers connect from another "
        f"address. At the end a request starts that needs three quarters of the pool, all that larger ones get, except "
        f"{SHORT_OF_FULL[0] // KIB} KiB; another one must still be admitted beyond them (if not, the test is repeated "
        "with a smaller request).",
        heads=["honest producers", "rounds", "acked p50, ms", "p99, ms", "greatest, ms"],
    )
    topic = kafka.topic(HONEST)
    setup = SluiceSetup(
        {"queued_max_request_bytes": POOL, "max_share": MAX_SHARE},
        {"socket_request_max_bytes": POOL - FRAMING},
        whole=True,
    )
    with ExitStack() as stack:
        proxy = stack.enter_context(Running(setup.variant(), kafka.port, folder))
        honest = stack.enter_context(HonestClients(proxy.port, topic, HONEST))
        began = time.monotonic()
        time.sleep(baseline_s)
        honest.await_round(began)
        attack = Slowloris(proxy.port, attackers, produce_frame(topic, LARGE))
        watch = Watch(proxy)
        come = time.monotonic()
        attack.begin()
        attack.run(watch_s)
        honest.await_round(come)
        ended = time.monotonic()
        lasted = attack.lasted_s()
        memory = watch.resident()
        full = free_share(proxy.port, topic)
    for title, span in (("before", (began, come)), ("during the attack", (come, ended))):
        took = [each.acked_s for each in honest.between(*span)]
        figures = (median(took), quantile(took, 0.99), max(took, default=float("inf")))
        case.rows.append([title, f"{len(took):,}", *map(milliseconds, figures)])
    problems = [*honest.problems, *proxy.problems]
    case.goals += [
        max_goal("honest produce during the attack, p99", "s", quantile(took, 0.99), HONEST_P99_S),
        max_goal(
            "time until the last hostile connection is closed", "s", max(lasted), CLOSED_SECONDS, 1
        ),
        min_goal("free part of the pool at the end", "%", 100 * full, 99.9, 1),
        *([memory.goal("whole", BOUND)] if memory else ()),
        max_goal("problems of honest clients and of Sluice", "", len(problems), 0, 0),
    ]
    case.said = (
        f"{len(attack.closed)} of {attackers} closed by the proxy, "
        f"after {seconds(median(lasted), 1)} s in the median"
    )
    case.note_problems(problems)
    return case


def free_share(port: int, topic: str) -> float:
    """Return the free share of the pool, from the largest request beside which another large one is admitted.

    One of all large requests may exceed their part of the pool. As a control, the other one must wait while a request
    holds the whole pool, and so is that one; if it does not wait, the result is 0.
    """
    other = produce_frame(topic, OTHER)
    if is_admitted_with(port, produce_frame(topic, POOL - FRAMING), other, REFUSED_SECONDS):
        return 0.0
    for missing in SHORT_OF_FULL:
        large = produce_frame(topic, int(POOL * LARGE_PART) - FRAMING - missing)
        if is_admitted_with(port, large, other, ADMITTED_SECONDS):
            return (POOL - missing) / POOL
    return 0.0


def is_admitted_with(port: int, large: bytes, other: bytes, patience_s: float) -> bool:
    """Return whether the other request is acknowledged when only the last byte of the large one is missing."""
    holder, asker = Connection(port, "127.0.0.3"), Connection(port, "127.0.0.4")
    try:
        holder.ask(large, time.monotonic())
        give_up = time.monotonic() + ADMITTED_SECONDS
        while holder.unsent_bytes > 1:
            if (
                isinstance(holder.write(holder.unsent_bytes - 1), Lost)
                or time.monotonic() > give_up
            ):
                return False
            select.select([], [holder], [], 0.1)
        asker.ask(other, time.monotonic())
        give_up = time.monotonic() + patience_s
        while time.monotonic() < give_up:
            if asker.unsent_bytes:
                asker.write()
            if select.select([asker], [], [], 0.05)[0]:
                reply = asker.read()
                if reply is not None:
                    return isinstance(reply, bytes) and not error_of(reply)
        return False
    finally:
        holder.close(reset=True)
        asker.close(reset=True)
