"""Case c: 500 connections that announce 16 MiB and send a byte every 10 s, beside honest producers.

Rules: the hostile come from 127.0.0.2, all within a moment, with the whole head of a Produce, so that it is known
what they want; the honest come from 127.0.0.1. What counts is when the last of the hostile was closed by the proxy; one
that never was counts as the whole time. Afterwards it must be possible to have the pool whole, at once.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.memory.connection import Connection, Lost
from bench.memory.figures import (
    Case,
    at_least,
    at_most,
    median,
    milliseconds,
    quantile,
    seconds,
)
from bench.memory.frames import FRAMING, KIB, LARGE, MIB, SMALL, error_of, produce_frame
from bench.memory.honest import Honest
from bench.memory.proxies import Running, SluiceSetup, Watch

if TYPE_CHECKING:
    from pathlib import Path

    from bench.memory.kafka import Kafka

ATTACKERS: Final = 500
HOSTILE: Final = "127.0.0.2"
HONEST: Final = 4
POOL: Final = 64 * MIB
BOUND: Final = POOL + FRAMING + LARGE - 1
MAX_SHARE: Final = 0.25
HEAD_BYTES: Final = 128
"""Of the request, sent at once: header, acks, topic and partition lie within."""
DRIP_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 40.0
CLOSED_SECONDS: Final = 35.0
HONEST_P99_S: Final = 0.5
BASELINE_SECONDS: Final = 5.0
SHORT_OF_FULL: Final = (64 * KIB, MIB, 4 * MIB, 16 * MIB, 32 * MIB)
"""What may be missing from the pool, tried from the least on."""
ADMITTED_SECONDS: Final = 3.0
REFUSED_SECONDS: Final = 1.0


@dataclass(slots=True)
class Attack:
    """`came` and `closed`: when each came, and when the proxy closed it, by descriptor."""

    port: int
    count: int
    frame: bytes
    came: dict[int, float] = field(default_factory=dict)
    closed: dict[int, float] = field(default_factory=dict)
    _crowd: dict[int, Connection] = field(default_factory=dict)

    def begin(self) -> None:
        """All come."""
        for _ in range(self.count):
            client = Connection(self.port, HOSTILE)
            client.ask(self.frame, time.monotonic())
            client.write(HEAD_BYTES)
            self._crowd[client.fileno()] = client
            self.came[client.fileno()] = client.began_s

    def run(self, run_s: float) -> None:
        """A byte from each every ten seconds, until all are closed or the time is up; then they are closed here."""
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
        """How long each was there; those that nobody closed as long as the last look."""
        last = time.monotonic()
        return [self.closed.get(number, last) - came for number, came in self.came.items()]


def measure(
    kafka: Kafka,
    folder: Path,
    attackers: int = ATTACKERS,
    baseline_s: float = BASELINE_SECONDS,
    watch_s: float = WATCH_SECONDS,
) -> Case:
    """A baseline, the attack, and the pool afterwards."""
    case = Case(
        "c",
        f"c. {attackers} slowloris connections, a pool of 64 MiB",
        f"{attackers} connections from one address announce a Produce of 16 MiB, send its first "
        f"{HEAD_BYTES} bytes and then one byte every {DRIP_SECONDS:g} s. Every Produce is wanted whole, an "
        f"address may have {MAX_SHARE:.0%} of the pool. {HONEST} librdkafka producers come from another "
        f"address. At the end one request that takes the whole pool but {SHORT_OF_FULL[0] // KIB} KiB is "
        "begun, and a small one must still be let in beside it (tried with more, if not).",
        heads=["honest producers", "rounds", "acked p50, ms", "p99, ms", "most, ms"],
    )
    topic = kafka.topic(HONEST)
    setup = SluiceSetup(
        {"queued_max_request_bytes": POOL, "max_share": MAX_SHARE},
        {"socket_request_max_bytes": POOL - FRAMING},
        whole=True,
    )
    with ExitStack() as stack:
        proxy = stack.enter_context(Running(setup.variant(), kafka.port, folder))
        honest = stack.enter_context(Honest(proxy.port, topic, HONEST))
        began = time.monotonic()
        time.sleep(baseline_s)
        attack = Attack(proxy.port, attackers, produce_frame(topic, LARGE))
        watch = Watch(proxy)
        come = time.monotonic()
        attack.begin()
        attack.run(watch_s)
        ended = time.monotonic()
        lasted = attack.lasted_s()
        memory = watch.resident()
        full = share_to_be_had(proxy.port, topic)
    for title, span in (("before", (began, come)), ("during the attack", (come, ended))):
        took = [each.acked_s for each in honest.between(*span)]
        figures = (median(took), quantile(took, 0.99), max(took, default=float("inf")))
        case.rows.append([title, f"{len(took):,}", *map(milliseconds, figures)])
    problems = [*honest.problems, *proxy.problems]
    case.goals += [
        at_most("honest produce during the attack, p99", "s", quantile(took, 0.99), HONEST_P99_S),
        at_most("the last of the hostile is closed after", "s", max(lasted), CLOSED_SECONDS, 1),
        at_least("of the pool to be had at the end", "%", 100 * full, 99.9, 1),
        memory.goal("whole", BOUND),
        at_most("problems of honest clients and of Sluice", "", len(problems), 0, 0),
    ]
    case.said = (
        f"{len(attack.closed)} of {attackers} closed by the proxy, "
        f"after {seconds(median(lasted), 1)} s in the median"
    )
    if problems:
        case.left_out["problems, the first"] = "; ".join(problems[:3])
    return case


def share_to_be_had(port: int, topic: str) -> float:
    """The largest part of the pool that one request gets while a small one is still let in beside it.

    Checked against itself: beside one that takes all of it the small one must wait. 0 if it does not, for then nothing
    is known.
    """
    small = produce_frame(topic, SMALL)
    if _is_admitted_beside(port, produce_frame(topic, POOL - FRAMING), small, REFUSED_SECONDS):
        return 0.0
    for missing in SHORT_OF_FULL:
        large = produce_frame(topic, POOL - FRAMING - missing)
        if _is_admitted_beside(port, large, small, ADMITTED_SECONDS):
            return (POOL - missing) / POOL
    return 0.0


def _is_admitted_beside(port: int, large: bytes, small: bytes, patience_s: float) -> bool:
    """Whether the small request is acknowledged while all of the large one but its last byte is there."""
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
        asker.ask(small, time.monotonic())
        asker.write()
        if not select.select([asker], [], [], patience_s)[0]:
            return False
        reply = asker.read()
        return isinstance(reply, bytes) and not error_of(reply)
    finally:
        holder.close(reset=True)
        asker.close(reset=True)
