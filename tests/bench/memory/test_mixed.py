"""Case a: its load, before a stub broker."""

import socket
import threading

from bench.memory.figures import Resident
from bench.memory.frames import KIB, LARGE, MIB, SMALL, produce_frame
from bench.memory.load import Load, Outcome
from bench.memory.mixed import MixedPlan, goals
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


def test_each_disconnect_by_the_far_side_is_a_problem() -> None:
    """So is a refused connection; the load runs to its end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        crowd = Load(listening.getsockname()[1], 0, MixedPlan(FRAMES))

        def end_three() -> None:
            for last in (False, False, True):
                accepted, _ = listening.accept()
                accepted.recv(4)
                if last:  # before the client connects again
                    listening.close()
                accepted.close()

        thread = threading.Thread(target=end_three)
        thread.start()
        crowd.add()
        found = crowd.run(1.5)
        thread.join(5)
    assert len(found.problems) == 4
    assert "no new connection" in found.problems[-1]
    assert found.longest_gap_s >= 0.5


def test_only_a_queue_has_a_goal_for_its_waits() -> None:
    """A streaming proxy is bounded in memory and must close no
    client; a load without a reply meets no goal of time.
    """
    silent = Outcome(ended_s=60.0)
    whole = goals("sluice, whole", silent, Resident(1, 2), 0)
    assert [goal.met for goal in whole] == [False, False, True, True]
    assert len(goals("sluice, streaming", silent, Resident(1, 2), 1)) == 2
