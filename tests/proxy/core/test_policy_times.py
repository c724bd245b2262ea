"""The time that policies take: which calls are measured, and the cost of measuring."""

import pytest

from proxy.core.engine import MEASURE_MS, Engine
from proxy.core.session.plan_book import MEASURED_EVERY
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f


class Clock:
    """Stands still unless a policy is slow."""

    us = 0

    def __call__(self) -> int:
        return self.us


class Slow(Recorder):
    """Takes 50 ms for each request that is marked."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.slow: set[int] = set()

    def on_request(self, request, peer, now_ms):
        if request.exchange_id in self.slow:
            self.clock.us += 50_000
        return super().on_request(request, peer, now_ms)


def room(others: int = 0) -> tuple[Engine, Slow, Watcher]:
    """Return an engine whose policies are measured by the test's clock."""
    policy = Slow(clock := Clock())
    engine = make_engine([policy, *(Recorder() for _ in range(others))], clock=clock)
    assert isinstance(engine.observer, Watcher)
    return engine, policy, engine.observer


def session(engine: Engine, *, measured: bool) -> Wire:
    """Return a session that is in the sample, or one that is not."""
    wire = Wire(engine)
    while (wire.session.peer.session_id % MEASURED_EVERY == 0) is not measured:
        wire = Wire(engine)
    return wire


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another"])
def test_one_session_of_sixteen_is_always_measured(others):
    """One slow call of a sampled session is reported at once."""
    engine, policy, watcher = room(others)
    wire = session(engine, measured=True)
    policy.slow.add(2)
    wire.client(f.heartbeat(1) + f.heartbeat(2) + f.heartbeat(3))
    assert watcher.slow == [("p0", "on_request", "Heartbeat", 50_000)]
    times = engine.chain.hook_runner.times["p0", "on_request"]
    assert (times.calls, times.took_us, times.slow) == (3, 50_000, 1)


def test_other_sessions_call_the_hook_directly():
    """Measuring costs them nothing."""
    engine, policy, watcher = room()
    wire = session(engine, measured=False)
    policy.slow.add(1)
    wire.client(f.heartbeat(1))
    (plan,) = wire.session.plans.by_kind.values()
    assert plan.on_request == policy.on_request
    assert watcher.slow == []


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another"])
def test_after_a_slow_step_every_call_is_measured_for_ten_seconds(others):
    """The step is reported with the policies that ran; a slow hook is reported when it is slow again."""
    engine, policy, watcher = room(others)
    wire = session(engine, measured=False)
    policy.slow |= {1, 2, 3, 4}
    wire.client(f.heartbeat(1))
    engine.on_slow_step(50)
    assert watcher.slow_steps == [(50, ["p0", "p1"][: 1 + others])]
    wire.client(f.heartbeat(2))
    wire.advance(MEASURE_MS - 1)
    engine.on_slow_step(50)  # a second slow step extends the ten seconds
    wire.advance(MEASURE_MS - 1)
    wire.client(f.heartbeat(3))
    assert watcher.slow == [("p0", "on_request", "Heartbeat", 50_000)] * 2
    wire.advance(1)
    wire.client(f.heartbeat(4))
    assert len(watcher.slow) == 2
    assert policy.asked == [1, 2, 3, 4]


def test_a_slow_step_without_policies_is_not_reported():
    """No plan is discarded either."""
    wire = Wire().client(f.heartbeat(1))
    wire.engine.on_slow_step(50)
    assert wire.watcher.slow_steps == []
    assert wire.session.plans.by_kind
