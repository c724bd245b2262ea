"""Tracked requests: when Sluice answers them in place of the broker, and which hooks see that reply."""

import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Forward, Hold, Need, Outcome, Patch, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session.grace_times import MIN_WAIT_MS, GraceTimes
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch
from tests.support.messages.waiting import (
    FETCH_MS,
    POLICIES,
    WAIT_MS,
    body_of,
    fetch_waiting,
    ids,
    said_of,
)
from wire.apis import ApiKey

# -- when ---------------------------------------------------------------------------------------


def test_a_produce_is_answered_just_before_its_own_timeout():
    """Half a second earlier, because its client closes the connection at the timeout."""
    wire = Wire().client(f.produce(1))
    wire.advance(WAIT_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert len(f.split(wire.to_client)) == 1
    assert wire.session.reason is None
    assert wire.given_turns  # the event loop has been told to look
    assert wire.engine.expired.produce == 1
    assert wire.to_broker == f.produce(1)


def test_a_fetch_is_answered_a_second_after_its_own_wait():
    """Empty, without an error, without a session, and with a throttle that clients understand."""
    wire = Wire().client(fetch(1))
    wire.advance(FETCH_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert wire.to_client == f.reply(1, struct.pack(">ii", 1, 0))
    assert wire.engine.expired.fetch == 1


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 15])
def test_an_empty_fetch_has_the_shape_of_its_version(version):
    """Error 0 and session 0, so that the client starts afresh."""
    wire = Wire().client(fetch_waiting(7, version=version))
    wire.advance(FETCH_MS)
    _, message = said_of(version, wire.to_client, ApiKey.FETCH)
    assert message.responses == ()
    assert getattr(message, "error_code", 0) == 0
    assert getattr(message, "session_id", 0) == 0
    assert message.throttle_time.total_seconds() == 0.001


@pytest.mark.parametrize(
    ("timeout_ms", "wait_ms"),
    [(30_000, 29_500), (1_001, 501), (1_000, 500), (400, 200), (200, MIN_WAIT_MS), (1, MIN_WAIT_MS),
     (0, MIN_WAIT_MS), (-1, MIN_WAIT_MS), (-(2**31), MIN_WAIT_MS), (2**31 - 1, 119_500)],
)  # fmt: skip
def test_a_negative_grace_takes_half_of_the_timeout_at_most(timeout_ms, wait_ms):
    """Any timeout_ms, a hostile one too, gives a wait of MIN_WAIT_MS at least and below the cap."""
    assert GraceTimes().produce_wait_ms(timeout_ms) == wait_ms


@pytest.mark.parametrize(
    ("max_wait_ms", "wait_ms"), [(500, 1_500), (1, 1_001), (120_000, 121_000), (2**31 - 1, 121_000)]
)
def test_a_fetchs_wait_is_capped_and_has_its_grace(max_wait_ms, wait_ms):
    """The grace is added to the capped wait."""
    assert GraceTimes().fetch_wait_ms(max_wait_ms) == wait_ms


@given(
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    produce_ms=st.integers(-60_000, 60_000),
    max_ms=st.integers(0, 10**6),
)
def test_every_wait_is_bounded(timeout_ms, produce_ms, max_ms):
    """At least MIN_WAIT_MS, at most the cap and its grace."""
    graces = GraceTimes(produce_ms=produce_ms, fetch_ms=abs(produce_ms), max_ms=max_ms)
    for wait_ms in (graces.produce_wait_ms(timeout_ms), graces.fetch_wait_ms(timeout_ms)):
        assert MIN_WAIT_MS <= wait_ms <= max(max_ms + abs(produce_ms), MIN_WAIT_MS)


@pytest.mark.parametrize(
    "request_frame",
    [f.produce(1, acks=1), fetch_waiting(1, max_wait_ms=0), fetch_waiting(1, min_bytes=0),
     fetch_waiting(1, max_wait_ms=-5), f.beat(1)],
)  # fmt: skip
def test_a_request_without_a_wait_is_left_to_the_broker(request_frame):
    """Only upstream.request_timeout_ms ends it, and with it the session."""
    wire = Wire().client(request_frame)
    wire.advance(10**6)
    assert wire.to_client == b""
    assert not wire.session.ended
    wire = Wire(make_engine(request_timeout_ms=60_000)).client(request_frame)
    wire.advance(59_999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert wire.to_client == b""


def test_a_longer_and_a_shorter_deadline_are_both_kept():
    """Each is answered at its own time, in the order of the requests."""
    wire = Wire().client(f.produce(1))
    wire.advance(29_000)
    wire.client(fetch(2))
    wire.advance(499)
    assert wire.to_client == b""
    wire.advance(1)
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1]
    wire.advance(1_000)
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1, 2]


def test_an_overdue_request_waits_for_an_earlier_one_that_is_not_overdue():
    """Replies keep the order of the requests; the overdue ones follow at once."""
    wire = Wire().client(f.produce(1) + fetch(2) + fetch(3))
    wire.advance(FETCH_MS)
    wire.advance(WAIT_MS - FETCH_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1, 2, 3]


def test_a_requests_time_counts_from_when_it_became_the_oldest_of_its_connection():
    """The broker answers in order: before that it was not its turn."""
    wire = Wire().client(f.beat(1) + fetch(2))
    wire.advance(FETCH_MS)
    wire.broker(f.beat_reply(1))
    wire.advance(FETCH_MS - 1)
    assert ids(wire.to_client) == [1]
    wire.advance(1)
    assert ids(wire.to_client) == [1, 2]


def test_a_broker_that_hangs_for_long_is_checked_rarely():
    """Ten minutes cost fewer than 100 wake-ups, not fifty a second."""
    wire = Wire().client(f.beat(1) + fetch(2))
    looks = 0
    while wire.now_ms < 600_000:
        at_ms = wire.engine.timers.next_ms()
        assert at_ms is not None
        wire.advance(max(at_ms - wire.now_ms, 1))
        looks += 1
    assert 10 < looks < 100


def test_a_long_session_has_one_timer():
    """The timer is set again when it fires, not at each request."""
    wire = Wire()
    armed = set()
    for n in range(1, 300):
        wire.client(f.produce(n)).broker(f.produce_reply(n))
        armed.add(wire.engine.timers.next_ms())
        wire.advance(100)
    assert len(armed) < 10
    assert wire.engine.timers.size == 1
    wire.advance(WAIT_MS)
    assert wire.engine.timers.size == 0


def test_a_hostile_timeout_does_not_make_the_timer_fire_often():
    """A Produce with timeout_ms 0, then a long poll: a few wake-ups in 100 s."""
    quick = body_of(3, [(b"t", [(0, b"r")])]).replace(struct.pack(">i", 30_000), bytes(4))
    wire = Wire().client(f.request(f.PRODUCE, 3, 1, quick))
    wire.broker(f.produce_reply(1))
    wire.client(fetch_waiting(2, max_wait_ms=100_000))
    armed = set()
    for _ in range(1_000):
        armed.add(wire.engine.timers.next_ms())
        wire.advance(100)
    assert len(armed) < 10


@pytest.mark.parametrize(
    ("sending_ms", "left_ms"),
    [
        (0, WAIT_MS),
        (10_000, WAIT_MS - 10_000),
        (WAIT_MS // 2, WAIT_MS // 2),
        (70_000, WAIT_MS // 2),
    ],
)
def test_a_slowly_sent_produce_has_at_least_half_of_its_wait_at_the_broker(sending_ms, left_ms):
    """The time of sending counts, because its client counts it too; until it is whole it is not overdue."""
    data = f.produce(1, size_bytes=5_000)
    wire = Wire().client(data[:4_000])
    wire.advance(sending_ms)
    assert wire.to_client == b""
    wire.client(data[4_000:])
    wire.advance(left_ms - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert len(f.split(wire.to_client)) == 1


@pytest.mark.parametrize("needs", [Need.HEADER, Need.BODY])
@pytest.mark.parametrize(
    ("held_ms", "left_ms"), [(10_000, WAIT_MS - 10_000), (29_000, WAIT_MS // 2)]
)
def test_a_held_produce_has_at_least_half_of_its_wait_at_the_broker(needs, held_ms, left_ms):
    """Whether its body was kept during the hold or is read after it."""
    policy = Recorder(lambda _: Hold(held_ms, "key", FORWARD), needs=needs, apis={f.PRODUCE})
    wire = Wire(make_engine([policy]))
    wire.client(fetch(9)).broker(f.reply(9))  # so that it is looked at often
    wire.client(f.produce(1))
    wire.advance(held_ms)
    assert wire.to_broker == fetch(9) + f.produce(1)
    for _ in range((left_ms - 1) // 100):
        wire.advance(100)
    wire.advance((left_ms - 1) % 100)
    assert ids(wire.to_client) == [9]
    wire.advance(1)
    assert ids(wire.to_client) == [9, 1]


def test_a_patched_max_wait_ms_sets_the_deadline():
    """A fetch waits as long as the value that a policy patched into it."""
    wire = Wire(
        make_engine(
            [Recorder(lambda _: Forward((Patch(4, struct.pack(">i", 9_000)),)), needs=Need.BODY)]
        )
    ).client(fetch(1))
    wire.advance(9_999)
    assert wire.to_client == b""
    wire.advance(1)
    assert len(f.split(wire.to_client)) == 1


# -- which hooks see it ---------------------------------------------------------------------------


@pytest.mark.parametrize("policies", ["asked", "head", "body", "throttled"])
@pytest.mark.parametrize("request_frame", [partial(f.produce, 1), partial(fetch, 1)])
def test_policies_hear_of_an_expired_request_once(policies, request_frame):
    """on_response sees the reply that Sluice made, and on_complete gets EXPIRED."""
    (policy,) = POLICIES[policies]()
    wire = Wire(make_engine([policy])).client(request_frame())
    wire.advance(WAIT_MS)
    wire.broker(f.produce_reply(1))
    wire.session.client_lost(wire.now_ms)
    wire.release()
    assert policy.completed == [(1, Outcome.EXPIRED)]
    assert len(policy.heard) == 1
    assert wire.watcher.observed == []


def test_the_reply_of_an_expired_request_carries_the_rest_of_its_throttle():
    """In a Produce's last field and a Fetch's first; the client stays muted as long."""
    for data, at in ((f.produce(1), -4), (fetch(1), 8)):
        policy = Recorder(lambda _: Throttle(200_000))
        wire = Wire(make_engine([policy])).client(data)
        wire.advance(FETCH_MS)
        wire.advance(WAIT_MS - FETCH_MS)
        left_ms = 200_000 - (WAIT_MS if at < 0 else FETCH_MS)
        assert struct.unpack_from(">i", wire.to_client, at % len(wire.to_client))[0] == left_ms
        assert wire.session.client.muted
        wire.advance(200_000 - WAIT_MS)
        assert not wire.session.client.muted
        assert policy.completed == [(1, Outcome.EXPIRED)]


def test_a_drain_ends_the_other_sessions_when_a_policy_raises_for_one():
    """The exception is reported as a policy error."""
    blamed = set()

    def hear(request):
        if request.exchange_id in blamed:
            raise RuntimeError("a bug in a policy")
        return FORWARD

    policy = Recorder(hear=hear)
    engine = make_engine([policy])
    first, second = Wire(engine), Wire(engine)
    first.client(f.beat(1)).broker(f.beat_reply(1)).client(fetch(2))
    second.client(fetch(1))
    blamed.add(2)
    first.drain()
    assert first.session.ended
    assert second.session.ended
    assert len(f.split(second.to_client)) == 1
    assert first.watcher.policy_errors == [("p0", "on_response")]
    first.release()
    second.release()
    assert len(policy.completed) == 3
