"""Mutes that begin with early bytes have the same effects as mutes that begin at once."""

from random import Random

import pytest

from policies.api import Throttle
from policies.quota.policy import Quota
from proxy.core.session import mutes
from proxy.core.session.channel import Mute
from proxy.core.session.mutes import mute_reasons
from tests.support.core.ledger import TimedWire, make_counting_engine
from tests.support.core.policies import Recorder
from tests.support.messages import frames as f
from tests.support.quotas.quota_plays import Play
from tests.support.quotas.quota_scripts import script, short_throttles

SEEDS = 200
PARTS = 4
QUICK = 1
"""So many parts are played by `make test`, all by `make test-all`."""


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize(
    "part",
    [*range(QUICK), *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK, PARTS))],
)
def test_deferred_or_not_a_mute_has_the_same_effects(part, looks):
    """Bytes, usage rows, traces, meters and buckets are equal, whether early bytes are seen before they are read or
    not; and many mutes are deferred, with and without early bytes.
    """
    deferred = early = 0
    for seed in range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS):
        for made in (short_throttles(Random(seed)), script(Random(seed), "entity")):
            at_once = Play(made, Quota).run()
            play = Play(made, Quota, defers=True, looks=looks)
            for name, found in play.run()._asdict().items():
                assert found == getattr(at_once, name), f"seed {seed}: {name}"
            deferred += play.deferred
            early += play.early
    assert deferred - early > SEEDS // PARTS
    assert early > SEEDS // PARTS


def throttled(ms: int, **options: int) -> TimedWire:
    """Return a session, 100 ms into a second, whose client is throttled by its second request."""
    engine, _ = make_counting_engine(
        [Recorder(lambda request: Throttle(ms if request.correlation_id > 1 else 0))],
        now_ms=1_000,
        **options,
    )
    engine.try_expect_early = lambda _: True
    wire = TimedWire(engine)
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    wire.pass_us(100_000)
    return wire.client(f.beat(2))


def rows(wire: TimedWire) -> list[tuple[int, int, int]]:
    """Return the second, the throttle time and the blocked time of each row so far."""
    return [(row.ts_ms // 1000, row.throttle_ms, row.blocked_ms) for row in wire.watcher.rows]


def test_a_client_that_waits_for_the_end_of_its_throttle_is_never_muted():
    """No timer runs, and its next request is forwarded at once; its row has the blocked time."""
    wire = throttled(300)
    session = wire.session
    assert session.client.muted == 0
    assert session.throttle.is_deferred
    assert mute_reasons(session) == Mute.THROTTLED
    assert wire.engine.timers.size == 0
    wire.broker(f.beat_reply(2))
    assert wire.to_client.endswith(f.beat_reply(2, 300))
    wire.pass_us(300_000)
    assert mute_reasons(session) == 0
    turns = wire.turns
    mutes.begin_deferred(session, wire.now_ms)
    assert not session.diverted
    assert wire.turns == turns
    wire.end_seconds()
    assert rows(wire) == [(1, 300, 300)]


@pytest.mark.parametrize("looks", [True, False])
def test_a_client_that_sends_early_is_muted_until_the_end(looks):
    """Its request is forwarded when the throttle ends, in order."""
    wire = throttled(300)
    wire.looks = looks
    wire.pass_us(100_000)
    wire.client(f.beat(3))
    assert wire.session.client.muted & Mute.THROTTLED
    assert wire.to_broker.endswith(f.beat(2))
    assert wire.unread == (f.beat(3) if looks else b"")
    wire.pass_us(199_000)
    assert wire.to_broker.endswith(f.beat(2))
    wire.pass_us(1_000)
    assert wire.to_broker.endswith(f.beat(2) + f.beat(3))
    wire.release()
    wire.end_seconds()
    assert [row[2] for row in rows(wire)] == [300]


def test_a_throttle_that_outlasts_its_second_is_not_deferred():
    """Each second's row has its own part of the blocked time."""
    wire = throttled(1_500)
    assert wire.session.client.muted & Mute.THROTTLED
    wire.pass_us(2_000_000)
    wire.end_seconds()
    assert [row[::2] for row in rows(wire)] == [(1, 900), (2, 600)]


def test_with_traces_no_mute_is_deferred():
    """A trace says when its throttle ended, which only a timer knows."""
    wire = throttled(300, keeps_traces=True)
    assert wire.session.client.muted & Mute.THROTTLED


def test_bytes_read_with_the_throttled_request_begin_the_mute_at_once():
    """Bytes after the request that is throttled are early."""
    wire = throttled(0)
    wire.client(f.beat(3) + f.beat(4))
    assert wire.session.client.muted == 0
    wire = throttled(300)
    wire.pass_us(300_000)
    wire.client(f.beat(3) + f.beat(4))
    assert wire.session.client.muted & Mute.THROTTLED
    assert wire.to_broker.endswith(f.beat(3))


def test_a_longer_throttle_of_the_broker_mutes_at_once():
    """The rest of the time that was counted in advance is not counted twice."""
    wire = throttled(300)
    wire.pass_us(100_000)
    wire.broker(f.beat_reply(2, 500))
    assert wire.session.client.muted & Mute.THROTTLED
    wire.pass_us(1_000_000)
    wire.end_seconds()
    assert sum(row[2] for row in rows(wire)) == 600


def test_a_client_that_leaves_gives_back_the_rest_of_its_blocked_time():
    """Only the time until the end of the session was spent."""
    wire = throttled(300)
    wire.pass_us(100_000)
    wire.release()
    wire.end_seconds()
    assert rows(wire) == [(1, 300, 100)]


def test_a_throttle_that_new_limits_end_is_over_at_once():
    """It is reviewed like one with a timer."""
    wire = throttled(300)
    wire.session.throttle.by = object()
    wire.pass_us(100_000)
    wire.engine.review_throttles(lambda _peer, _why: 0.0)
    assert mute_reasons(wire.session) == 0
    wire.end_seconds()
    assert rows(wire) == [(1, 300, 100)]
