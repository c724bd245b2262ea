"""T10: long polls that ask to wait for weeks, by the thousand, and produces with such a timeout.

A wait is cut to `purgatory.max_wait_ms`, and Sluice answers at its end if the broker does not. A waiting request costs
little memory and no work until then. Time is virtual, and the broker is silent.
"""

import gc
import struct
import tracemalloc
from collections.abc import Callable

import pytest

from proxy.core.engine import Engine
from proxy.core.session.grace_times import GraceTimes
from tests.support.core.memory import Link
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.waiting import fetch_waiting
from tests.support.processes.measured import counted_work, tell

PARKED = 5_000
CONNECTIONS = 50
MAX_WAIT_MS = 30_000
FOREVER_MS = 2**31 - 1
ENTRY_BYTES = 4 << 10


def park_engine() -> Engine:
    """Answers at the deadline, also if the broker has just sent something."""
    return make_engine(graces=GraceTimes(produce_ms=0, fetch_ms=1000, max_ms=MAX_WAIT_MS))


def produce_for_ever(correlation_id: int) -> bytes:
    """Return a Produce with acks=all and the longest timeout there is."""
    usual, longest = struct.pack(">hi", -1, 30_000), struct.pack(">hi", -1, FOREVER_MS)
    return f.produce(correlation_id).replace(usual, longest, 1)


def fetch_for_ever(correlation_id: int) -> bytes:
    """Return a Fetch with the longest wait and a size that is never reached."""
    return fetch_waiting(correlation_id, max_wait_ms=FOREVER_MS, min_bytes=FOREVER_MS)


@pytest.mark.parametrize("ask", [fetch_for_ever, produce_for_ever])
def test_thousands_of_endless_waits_end_in_time_and_cost_little(
    ask: Callable[[int], bytes],
) -> None:
    """5,000 from one user: each ends a second after the longest wait at the latest, and needs less than 4 KiB."""
    engine = park_engine()
    wires = [Link(engine, user="mallory") for _ in range(CONNECTIONS)]
    for wire in wires:
        wire.client(f.heartbeat(0)).broker(f.heartbeat_reply(0))
    honest = Link(engine, "10.2.0.1", "alice")
    work_of(honest)  # so that its plan is made
    alone = work_of(honest)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, 1 + PARKED // CONNECTIONS):
            for wire in wires:
                wire.client(ask(number))
                wire.to_broker = b""
        gc.collect()
        entry_bytes = tracemalloc.get_traced_memory()[0] / PARKED
    finally:
        tracemalloc.stop()
    beside = work_of(honest)
    now_ms = engine.now_ms
    while not all(answers(wire) == PARKED // CONNECTIONS for wire in wires):
        assert engine.now_ms <= now_ms + PARKED // CONNECTIONS * (MAX_WAIT_MS + 1000), (
            "a wait does not end"
        )
        wires[0].advance(500)
    seconds = (engine.now_ms - now_ms) / 1000
    tell("T10", f"{ask.__name__}: {PARKED} parked, {entry_bytes:.0f} bytes each; an honest request took {beside} lines "
         f"instead of {alone}; the last of {PARKED // CONNECTIONS} in a row ended after {seconds:.1f} s")  # fmt: skip
    assert entry_bytes < ENTRY_BYTES
    assert beside <= 1.1 * alone + 20
    assert seconds * 1000 <= MAX_WAIT_MS + 1000
    for wire in wires:  # the broker still owes its late replies
        wire.session.client_lost(engine.now_ms)
        wire.release()
    assert honest.held_bytes == 0


def answers(wire: Wire) -> int:
    """Return how many replies the client has, without that to its Heartbeat."""
    return len(f.split(wire.to_client)) - 1


def work_of(wire: Wire) -> int:
    """Return the lines of Python that one honest request and its reply take."""
    with counted_work() as work:
        wire.client(f.heartbeat(9)).broker(f.heartbeat_reply(9))
    return work.lines
