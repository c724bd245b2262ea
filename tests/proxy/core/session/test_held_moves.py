"""Held requests move to a new chain a part at a time, the oldest first."""

from collections.abc import Collection

from policies.api import Hold, Policy
from proxy.core.engine import Engine
from proxy.core.session.held_moves import MOVED_AT_ONCE
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f


def held(count: int) -> tuple[Engine, list[Wire]]:
    """Return sessions whose requests p0 holds, each a millisecond later than the one before."""
    engine = make_engine([Recorder(lambda _: Hold(1_000_000, "key"))])
    wires = []
    for _ in range(count):
        wires.append(Wire(engine).client(f.heartbeat(1)))
        engine.advance(engine.now_ms + 1)
    return engine, wires


def replace(engine: Engine, *policies: Policy, gone: Collection[str] = ()) -> None:
    engine.adopt_chain(make_engine(policies).chain, gone)


def test_one_part_moves_each_millisecond_the_oldest_first():
    """The wait of a request whose holder is gone ends with its move."""
    engine, wires = held(2 * MOVED_AT_ONCE + 1)
    replace(engine, gone=["p0"])
    assert not any(wire.to_broker for wire in wires)
    for elapsed_ms, count in enumerate((MOVED_AT_ONCE, 2 * MOVED_AT_ONCE, len(wires))):
        wires[0].advance(min(elapsed_ms, 1))
        assert [bool(wire.to_broker) for wire in wires] == [n < count for n in range(len(wires))]


def test_a_request_whose_holder_stays_waits_on_and_is_judged_by_the_new_chain():
    """Also one that is asked about before its turn: it moves first, and not again."""
    for moved_ms in (None, 5):
        engine, wires = held(MOVED_AT_ONCE + 1)
        replace(engine, later := Recorder())
        if moved_ms is not None:
            wires[0].advance(moved_ms)
            wires[0].advance(moved_ms)
            assert engine.moves.move(wires[0].session.held)  # it has moved
        assert all(wire.session.held is not None for wire in wires)
        assert wires[0].wake("key") == len(wires)
        wires[0].advance(1)
        assert later.asked == [1] * len(wires)
        assert all(wire.to_broker == f.heartbeat(1) for wire in wires)


def test_a_second_replacement_moves_each_request_to_the_newest_chain():
    """Those that had moved to the chain between, and those that had not; a part at a time, as before."""
    engine, wires = held(MOVED_AT_ONCE + 1)
    replace(engine, between := Recorder())
    wires[0].advance(0)
    replace(engine, newest := Recorder())
    assert wires[0].wake("key") == len(wires)
    assert (len(between.asked), len(newest.asked)) == (0, len(wires))
    engine, wires = held(3 * MOVED_AT_ONCE)
    replace(engine, Recorder())
    wires[0].advance(0)
    replace(engine, gone=["p0"])
    for moved in range(1, 4):
        wires[0].advance(1)
        assert sum(bool(wire.to_broker) for wire in wires) == moved * MOVED_AT_ONCE


def test_a_holder_that_one_of_two_replacements_left_out_is_gone():
    """Another policy with its name may be there since the second one."""
    engine, (wire,) = held(1)
    replace(engine, gone=["p0"])
    replace(engine, Recorder())
    wire.advance(0)
    assert wire.to_broker == f.heartbeat(1)
