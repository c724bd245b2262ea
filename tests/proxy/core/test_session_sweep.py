"""Idle connections end (connections.max.idle.ms), and old ones retire, each at an age of its own."""

import pytest

from policies.api import Hold, Reject, Throttle
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.session_sweep import JITTER, MAX_ENDED, SLICE, SWEEPS
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f

IDLE_MS = 600_000
LATE_MS = IDLE_MS // SWEEPS + 2


def wire_with(policies=(), max_idle_ms: int = IDLE_MS) -> Wire:
    engine = make_engine(policies)
    engine.limit_connections(ConnectionLimits(max_idle_ms=max_idle_ms))
    return Wire(engine)


def pass_time(wire: Wire, elapsed_ms: int, step_ms: int = 1000) -> None:
    """Let time pass in steps, as the driver does."""
    until_ms = wire.now_ms + elapsed_ms
    while wire.now_ms < until_ms:
        wire.advance(min(step_ms, until_ms - wire.now_ms))


@pytest.mark.parametrize("count", [0, 1])
def test_a_connection_ends_after_its_idle_time_and_not_before(count):
    """It ends in order, and no client misses a reply; one that never sent anything is idle from its beginning."""
    wire = wire_with().client(f.heartbeat(1) * count).broker(f.heartbeat_reply(1) * count)
    pass_time(wire, IDLE_MS - 1)
    assert not wire.session.ended
    pass_time(wire, LATE_MS)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.IDLE
    assert wire.session.detail == "nothing sent or received for 600000 ms"
    assert wire.to_client == f.heartbeat_reply(1) * count


def test_a_limit_of_zero_ends_no_connection_and_needs_no_timer():
    """The process may sleep."""
    wire = wire_with(max_idle_ms=0)
    assert wire.engine.timers.size == 0
    wire.advance(100 * IDLE_MS)
    assert not wire.session.ended


@pytest.mark.parametrize("what", ["request and reply", "a request without reply"])
def test_what_a_client_sends_keeps_its_connection_open(what):
    """Every nine minutes is enough; a Produce with acks=0 counts although it has no reply."""
    wire = wire_with()
    for n in range(4):
        pass_time(wire, IDLE_MS - 60_000)
        if what == "request and reply":
            wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
        else:
            wire.client(f.produce(n, acks=0))
    assert not wire.session.ended
    pass_time(wire, IDLE_MS + LATE_MS)
    assert wire.session.reason is CloseReason.IDLE


def test_bytes_that_are_no_request_do_not_keep_a_connection_open():
    """Else a byte every ten minutes would."""
    wire = wire_with().client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    for byte in f.heartbeat(2)[:8]:
        pass_time(wire, IDLE_MS // 4)
        if wire.session.ended:
            break
        wire.client(bytes([byte]))
    assert wire.session.reason is CloseReason.IDLE


@pytest.mark.parametrize(
    ("sent", "replied"),
    [
        (f.produce(2, size_bytes=90_000)[:5000], b""),
        (f.heartbeat(2), b""),
        (f.heartbeat(2), f.heartbeat_reply(2)[:6]),
    ],
    ids=["half a request", "a request", "half a reply"],
)
def test_a_connection_with_something_due_is_not_idle(sent, replied):
    """These have deadlines of their own."""
    wire = wire_with().client(sent).broker(replied)
    pass_time(wire, 2 * IDLE_MS)
    assert wire.session.reason is not CloseReason.IDLE


def test_unsent_replies_and_a_held_request_are_due():
    """A slow reader and a waiting request are not idle."""
    slow = wire_with()
    slow.session.client.put(b"unsent")
    held = Wire(wire_with([Recorder(lambda _: Hold(2 * IDLE_MS, "key", Reject(1)))]).engine)
    held.client(f.heartbeat(1))
    assert held.session.held is not None
    for wire in (slow, held):
        assert not wire.session.is_idle(wire.now_ms + IDLE_MS)


def test_a_throttled_client_has_its_idle_time_from_the_end_of_the_throttle():
    """It could send nothing before, as its client library was told."""
    wire = wire_with([Recorder(lambda _: Throttle(2 * IDLE_MS))])
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    pass_time(wire, 3 * IDLE_MS - 1000)
    assert not wire.session.ended
    pass_time(wire, 1000 + LATE_MS)
    assert wire.session.reason is CloseReason.IDLE


def test_a_sweep_looks_at_few_sessions_per_step_and_at_all_of_them():
    """Of 5,000 idle ones each step ends a few; active ones stay."""
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(max_idle_ms=1000))
    idle = [Wire(engine) for _ in range(3 * SLICE)]
    active = [Wire(engine) for _ in range(SLICE)]
    watcher = engine.observer
    assert isinstance(watcher, Watcher)
    ended = 0
    for at_ms in range(1000, 1000 + 300):
        for wire in active:
            wire.session.replied_ms = at_ms
        engine.advance(at_ms)
        now_ended = sum(wire.session.ended for wire in idle)
        assert now_ended - ended <= MAX_ENDED
        ended = now_ended
    assert ended == len(idle)
    assert not any(wire.session.ended for wire in active)


def test_a_fault_of_one_session_ends_no_sweep(monkeypatch):
    """It is reported; the others still end in time."""
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(max_idle_ms=1000))
    wires = [Wire(engine) for _ in range(3)]
    bad = wires[1].session

    def fail(self, reason, detail, now_ms):
        if self is bad:
            raise RuntimeError("a bug")
        self.end(reason, detail, now_ms)

    monkeypatch.setattr(type(bad), "end_and_ask_for_turn", fail)
    for at_ms in range(1000, 1100):
        engine.advance(at_ms)
    assert wires[0].session.ended
    assert wires[2].session.ended
    assert {str(error) for error in engine.observer.internal} == {"a bug"}


def test_without_sessions_no_sweep_is_planned():
    """The last one that leaves ends the sweeps, the next one starts them."""
    wire = wire_with()
    assert wire.engine.sweep.runs
    wire.release()
    wire.engine.advance(wire.now_ms + IDLE_MS)
    assert not wire.engine.sweep.runs
    assert wire.engine.timers.size == 0
    Wire(wire.engine)
    assert wire.engine.sweep.runs


def test_a_shorter_limit_applies_at_once():
    """A reload does not wait for the next sweep of the old limit."""
    wire = wire_with()
    wire.advance(10_000)
    wire.engine.limit_connections(ConnectionLimits(max_idle_ms=1000))
    wire.advance(20)
    assert wire.session.reason is CloseReason.IDLE


# -- age ----------------------------------------------------------------------------------------

AGE_MS = 60_000


def test_a_connection_at_work_ends_at_its_age_between_two_requests():
    """However much it is used; no reply is lost."""
    wire = Wire(make_engine())
    wire.engine.limit_connections(ConnectionLimits(max_age_ms=AGE_MS))
    sent = 0
    while not wire.session.ended and wire.now_ms < 2 * AGE_MS:
        wire.client(f.heartbeat(sent)).advance(3)
        wire.broker(f.heartbeat_reply(sent)).advance(7)
        sent += 1
    assert (1 - JITTER) * AGE_MS <= wire.now_ms <= (1 + JITTER) * AGE_MS + AGE_MS // SWEEPS + 10
    assert wire.session.reason is CloseReason.MAX_AGE
    assert wire.to_client == b"".join(map(f.heartbeat_reply, range(sent)))
    assert wire.to_broker == b"".join(map(f.heartbeat, range(sent)))


def test_connections_of_one_moment_end_at_different_times():
    """So that a fleet does not come back at once, and a gateway that was added gets its share."""
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(max_age_ms=AGE_MS))
    wires = [Wire(engine) for _ in range(300)]
    ended_ms: dict[int, int] = {}
    for at_ms in range(0, 2 * AGE_MS, 50):
        engine.advance(at_ms)
        for place, wire in enumerate(wires):
            if wire.session.ended:
                ended_ms.setdefault(place, at_ms)
    assert len(ended_ms) == len(wires)
    tenths = [0] * 10
    for at_ms in ended_ms.values():
        tenths[min(9, int((at_ms - 0.9 * AGE_MS) / (0.02 * AGE_MS)))] += 1
    assert max(tenths) <= 60
    assert min(tenths[:9]) >= 10


def test_an_age_may_be_set_and_changed_while_connections_are_open():
    """It holds for those at once: they are as old as they are."""
    wire = Wire(make_engine())
    wire.advance(10 * AGE_MS)
    assert not wire.session.ended
    wire.engine.limit_connections(ConnectionLimits(max_age_ms=AGE_MS))
    wire.advance(AGE_MS // SWEEPS)
    wire.advance(20)
    assert wire.session.reason is CloseReason.MAX_AGE
    assert wire.session.detail.endswith("and about 60000 are allowed")


def test_a_connection_without_an_age_limit_stays_as_long_as_it_is_used():
    """The default: Kafka has no such limit."""
    wire = wire_with(max_idle_ms=1000)
    for n in range(200):
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n)).advance(900)
    assert not wire.session.ended
