"""Faults of policies: the cost is what `on_error` says, and each request's end is reported exactly once."""

import math
from itertools import product

import pytest

from policies.api import (
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Policy,
    Reject,
    Respond,
    Throttle,
)
from policies.entry_host import EntryHost
from policies.hook_runner import HookRunner
from proxy.core.errors import CloseReason
from tests.support.core.holding import assert_nothing_left
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each


class Odd:
    """A key that can be hashed once."""

    hashed = False

    def __hash__(self) -> int:
        if self.hashed:
            raise RuntimeError("no second hash")
        self.hashed = True
        return 5

    def __str__(self) -> str:
        raise RuntimeError("no text")


NONSENSE = {
    "nothing": lambda: None,
    "a class": lambda: Forward,
    "a throttle without end": lambda: Throttle(math.inf),
    "a throttle that is no number": lambda: Throttle(math.nan),
    "a negative throttle": lambda: Throttle(-5),
    "a throttle of text": lambda: Throttle("5"),
    "a throttle of a hold": lambda: Throttle(5, Hold(5, "k")),
    "a hold of half a millisecond": lambda: Hold(0.5, "k"),
    "a hold of eternity": lambda: Hold(1 << 80, "k"),
    "a hold on a list": lambda: Hold(5, []),
    "a reply of text": lambda: Respond("text"),
    "a refusal beyond int16": lambda: Reject(1 << 20),
    "a patch of text": lambda: Forward((Patch(0, "x"),)),
    "a patch before the body": lambda: Forward((Patch(-1, b"x"),)),
    "a patch behind the body": lambda: Forward((Patch(1 << 20, b"x"),)),
    "a body of text": lambda: Forward(body="x"),
}
RAISED = [RuntimeError("bug"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]


def faulty(say=lambda: FORWARD, *, needs=Need.HEADER, hear=lambda: FORWARD) -> Recorder:
    """Return a policy that calls one of these functions for each verdict."""
    return Recorder(lambda _: say(), needs=needs, hear=lambda _: hear())


def raising(error: BaseException):
    """Return a function that raises it."""

    def say():
        raise error

    return say


SAYINGS = {**NONSENSE, **{type(each).__name__: raising(each) for each in RAISED}}
FAULTS = [
    *((each, Need.HEADER, 0) for each in SAYINGS),
    ("a patch behind the body", Need.BODY, 0),
    *product(("a hold on a list", "SystemExit"), Need, (0, 1)),
]
"""Every fault, and two of them with all that a policy may need, alone and behind another policy."""
PLACES = pytest.mark.parametrize("others", [0, 1], ids=["alone", "behind another"])


@for_each(FAULTS)
def test_with_on_error_close_a_fault_in_on_request_closes_the_session(say, needs, others):
    """The request's end is reported once; another session is not affected."""
    policy = faulty(SAYINGS[say], needs=needs)
    watcher = Recorder()
    wire = Wire(make_engine([*[watcher] * others, policy])).client(f.heartbeat(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.to_broker == b""
    assert wire.watcher.policy_errors == [(f"p{others}", "on_request")]
    assert wire.watcher.internal == []
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert watcher.completed == [(1, Outcome.DISCONNECTED)] * others
    assert_nothing_left(wire)
    assert len(policy.completed) == 1


@for_each(FAULTS)
def test_with_on_error_forward_a_fault_in_on_request_forwards_it(say, needs, others):
    """This holds for an invalid verdict and for an exception; the bytes are unchanged."""
    policy = faulty(SAYINGS[say], needs=needs)
    wire = Wire(make_engine([*[Recorder()] * others, policy], on_error="forward"))
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert wire.to_broker == f.heartbeat(1)
    assert wire.to_client == f.heartbeat_reply(1)
    assert wire.watcher.policy_errors == [(f"p{others}", "on_request")]
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert_nothing_left(wire)


@pytest.mark.parametrize(
    "hear", [lambda: None, lambda: Reject(44), lambda: Throttle(math.inf), raising(SystemExit(3))]
)
@PLACES
def test_a_fault_in_on_response_closes_the_session(hear, others):
    """The policy may exist to guard the reply. The request's end is reported once."""
    policy = faulty(hear=hear)
    wire = Wire(make_engine([*[Recorder()] * others, policy]))
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.to_client == b""
    assert wire.watcher.policy_errors == [(f"p{others}", "on_response")]
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert_nothing_left(wire)


@for_each(product(RAISED, [Respond(b"\0\0"), Reject(44)]))
def test_after_a_fault_at_a_local_reply_the_end_is_reported_once(error, verdict):
    """The request was never forwarded."""
    policy = faulty(lambda: verdict, hear=raising(error))
    wire = Wire(make_engine([policy])).client(f.heartbeat(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert_nothing_left(wire)


def test_an_exception_in_on_complete_is_only_reported():
    """The reply is sent, the next request passes, and each exception is reported."""

    class Ends(Policy):
        Config = dict

        def on_complete(self, request, outcome, peer, result, now_ms):
            raise SystemExit(3)

    wire = Wire(make_engine([Ends({}, None)]))  # type: ignore[arg-type]
    wire.client(f.heartbeat(1) + f.heartbeat(2)).broker(f.heartbeat_reply(1) + f.heartbeat_reply(2))
    assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)
    assert wire.watcher.policy_errors == [("p0", "on_complete")] * 2
    assert_nothing_left(wire)


class Alarmed(Policy):
    """Each hook that is not about a request raises SystemExit."""

    Config = dict
    tick_ms = 10

    def __init__(self):
        super().__init__({}, None)  # type: ignore[arg-type]

    def on_connect(self, peer, now_ms):
        raise SystemExit(3)

    def on_disconnect(self, peer, now_ms):
        raise SystemExit(3)

    def on_tick(self, now_ms):
        raise SystemExit(3)

    def effective_quota(self, user, client_id):
        raise SystemExit(3)

    def close(self):
        raise SystemExit(3)


def test_an_exception_in_a_tick_a_connection_hook_or_close_ends_nothing():
    """Each is reported, and later ticks happen."""
    engine = make_engine([Alarmed()], on_error="forward")
    wire = Wire(engine)
    engine.advance(10)
    engine.advance(20)
    assert engine.chain.effective_quota("a", "b") is None
    wire.release()
    engine.chain.close()
    hooks = ["on_connect", "on_tick", "on_tick", "effective_quota", "on_disconnect", "close"]
    assert wire.watcher.policy_errors == [("p0", hook) for hook in hooks]


def test_an_exception_in_an_alarm_ends_nothing():
    """It is reported under `call_at`; the timers after it fire."""
    engine = make_engine()
    watcher = engine.observer
    assert isinstance(watcher, Watcher)
    rang: list[int] = []

    class Services:
        wake = reconsider = review_throttles = topic_name = load = read = save = None
        speaks_as_itself = None

        def arm(self, at_ms, call):
            return engine.timers.arm(at_ms, call)

    services = Services()
    host = EntryHost("mine", "enforce", services, {})  # type: ignore[arg-type]
    host.connect(services, HookRunner(watcher))  # type: ignore[arg-type]
    host.call_at(5, lambda _: raising(SystemExit(3))())
    host.call_at(5, rang.append)
    engine.advance(5)
    assert rang == [5]
    assert watcher.policy_errors == [("mine", "call_at")]
    for at_ms in (math.inf, math.nan, 0.5, -1, "5", True, 1 << 80, None):
        with pytest.raises(TypeError, match=r"^at_ms is .*, expected an integer in 0\.\."):
            host.call_at(at_ms, rang.append)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^call is 5, expected a function of now_ms$"):
        host.call_at(5, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["wake", "expiry", "drain"])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_fault_at_the_end_of_a_hold_ends_the_held_session_only(how, error):
    """The waking session continues; the end is reported once. At the deadline the next policy is asked."""
    says = [Hold(50, "k"), raising(error)]

    def say():
        verdict = says.pop(0)
        return verdict() if callable(verdict) else verdict

    holder = faulty(lambda: Hold(50, "k") if how != "wake" else say())
    behind = faulty(raising(error))
    wire = Wire(make_engine([holder, behind])).client(f.heartbeat(1))
    assert wire.session.held is not None
    if how == "wake":
        assert wire.wake("k") == 1
    elif how == "expiry":
        wire.advance(50)
    else:
        wire.drain()
    drained = how == "drain"
    assert wire.session.reason is (CloseReason.DRAINED if drained else CloseReason.POLICY_FAULT)
    assert holder.completed == [(1, Outcome.DISCONNECTED)]
    assert len(wire.watcher.policy_errors) == 1
    assert_nothing_left(wire)


@pytest.mark.parametrize("end", [raising(SystemExit(3)), lambda: Reject(44, close=True)])
def test_a_hook_ends_its_own_session_only_after_it_has_returned(end):
    """A reply wakes the next request of its client, whose policy ends the session; the reply is delivered first."""
    says = [lambda: FORWARD, lambda: Hold(50, "k"), end]
    inside = []

    def say():
        return says.pop(0)()

    def hear():
        inside.append((wire.engine.wake("k"), wire.session.ending))
        return FORWARD

    policy = faulty(say, hear=hear)
    wire = Wire(make_engine([policy]))
    wire.client(f.heartbeat(1) + f.heartbeat(2)).broker(f.heartbeat_reply(1))
    assert inside[0] == (1, False)
    assert wire.session.ended
    assert wire.to_client.startswith(f.heartbeat_reply(1))
    assert sorted(number for number, _ in policy.completed) == [1, 2]
    assert wire.watcher.internal == []
    assert_nothing_left(wire)


def test_a_request_whose_key_can_be_hashed_once_waits_for_its_deadline():
    """The key had a hash when the verdict was checked; no wake-up finds it later."""
    says = [Hold(50, Odd())]
    wire = Wire(make_engine([faulty(lambda: says.pop(0) if says else FORWARD)]))
    wire.client(f.heartbeat(1))
    assert wire.session.held is not None
    wire.advance(50)
    assert wire.to_broker == f.heartbeat(1)
    assert_nothing_left(wire)


def test_a_request_whose_key_raises_in_eq_and_str_is_held_and_woken():
    """Another session's key with the same hash is not affected."""

    class Key:
        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            raise SystemExit(3)

        def __str__(self) -> str:
            raise SystemExit(3)

    keys = [Key(), Key()]
    says = [Hold(1000, keys[0]), Hold(1000, keys[1])]
    engine = make_engine([faulty(lambda: says.pop(0) if says else FORWARD)])
    first, second = Wire(engine).client(f.heartbeat(1)), Wire(engine).client(f.heartbeat(2))
    assert first.wake(keys[0]) == 1
    assert first.to_broker == f.heartbeat(1)
    assert second.session.held is not None
    second.advance(1000)
    assert second.to_broker == f.heartbeat(2)
    assert second.watcher.internal == second.watcher.policy_errors == []
