"""Case a: its load, before a stub broker."""

from bench.memory.frames import KIB, LARGE, MIB, SMALL, produce_frame
from bench.memory.load import Load
from bench.memory.mixed import MixedPlan
from tests.bench.memory.conftest import Behind

CLIENTS = 8
FRAMES = {SMALL: [produce_frame("t", KIB)], LARGE: [produce_frame("t", MIB)]}


def test_both_sizes_are_answered_and_some_clients_reconnect(behind: Behind) -> None:
    """Each reply is counted once with its wait; a client that leaves connects again; there is no problem."""
    sluice, stub = behind
    crowd = Load(sluice.port, CLIENTS, MixedPlan(FRAMES))
    crowd.open(FRAMES[SMALL][0])
    found = crowd.run(1.0)
    assert not found.problems
    assert found.waits[SMALL]
    assert found.waits[LARGE]
    assert found.left > 0
    assert stub.connected > CLIENTS  # a client that leaves at once may not have reached the broker
    assert len(found.replied) == sum(map(len, found.waits.values()))
    assert all(wait > 0 for waits in found.waits.values() for wait in waits)
    assert 0 < found.longest_gap_s < found.ended_s - found.began_s
