"""A capture has every request and each question to the policies about it."""

import pytest

from policies.api import EXEMPT, FORWARD, Hold, Need, Outcome, Reject, Throttle
from proxy.core.stats import capture as captures
from proxy.core.stats.capture import Capture, Seen
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import versions, versions_reply


def captured(*policies: Recorder, **options) -> tuple[Wire, Capture]:
    capture = Capture()
    return Wire(make_engine(policies, capture=capture, **options)), capture


def told(capture: Capture) -> list[Seen]:
    return sorted(capture.take(), key=lambda seen: seen.number)


def test_each_question_has_the_next_number() -> None:
    """Requests and replies of two sessions are numbered in the order, and with the times, that the policy saw."""
    policy = Recorder()
    first, capture = captured(policy, now_ms=1000)
    second = Wire(first.engine)
    first.client(f.heartbeat(1))
    second.client(f.heartbeat(1))
    first.advance(5)
    second.broker(f.heartbeat_reply(1))
    first.broker(f.heartbeat_reply(1))

    one, two = told(capture)

    assert (one.event, two.event, two.replied_event, one.replied_event) == (1, 2, 3, 4)
    assert (one.asked_ms, one.replied_ms, one.ended_ms) == (1000, 1005, 1005)
    assert one.exchange.plan.peer.session_id == first.session.peer.session_id
    assert (one.verdict, one.outcome, one.reply_bytes) == ("forward", Outcome.REPLIED, 6)
    assert told(capture) == []


def test_requests_without_a_question_are_captured_too() -> None:
    """Without a policy each request has a row with its size and its reply's size."""
    wire, capture = captured()
    wire.client(f.heartbeat(1) + f.produce(2) + f.produce(3, acks=0))
    wire.broker(f.heartbeat_reply(1) + f.produce_reply(2))

    rows = told(capture)

    assert [seen.verdict for seen in rows] == ["none"] * 3
    assert [seen.outcome for seen in rows] == [Outcome.REPLIED, Outcome.REPLIED, Outcome.NO_REPLY]
    assert [seen.reply_bytes for seen in rows] == [6, len(f.produce_reply(2)) - 4, 0]
    assert [seen.replied_event for seen in rows] == [0, 0, 0]


@for_each(list(Need))
def test_a_held_request_is_captured_with_each_question(needs: Need) -> None:
    """The capture has the first question, each further one, and the final verdict with its delay."""
    verdicts = [Hold(1000, "key"), Hold(1000, "key"), Throttle(70)]
    wire, capture = captured(Recorder(lambda _: verdicts.pop(0), needs=needs))
    wire.client(f.heartbeat(1))
    wire.advance(10)
    wire.wake("key")
    wire.advance(20)
    wire.wake("key")
    wire.broker(f.heartbeat_reply(1))

    (seen,) = told(capture)

    assert (seen.event, seen.asked_ms) == (1, 0)
    assert seen.released == [(2, 10), (3, 30)]
    assert (seen.verdict, seen.delay_ms) == ("throttle", 70)
    assert seen.replied_event == 4


def test_a_reply_is_captured_with_its_throttle_times() -> None:
    """It has the throttle that a policy decides at the reply, and the one that the broker wrote."""
    wire, capture = captured(Recorder(hear=lambda _: Throttle(300)))
    wire.client(f.beat(1)).broker(f.beat_reply(1, 40))

    (seen,) = told(capture)

    assert (seen.delay_ms, seen.reply_delay_ms, seen.reply_throttle_time_ms) == (0, 300, 40)


def test_requests_that_no_quota_counts_are_marked() -> None:
    """They are the first ApiVersions and those that a policy exempts, with or without a throttle."""
    verdicts = [FORWARD, EXEMPT, Throttle(5, EXEMPT), Throttle(5)]
    wire, capture = captured(Recorder(lambda _: verdicts.pop(0)))
    wire.client(versions(1, 1)).broker(versions_reply(1, 0, 1, 15))
    for number in (2, 3, 4):
        wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))
        wire.advance(100)

    rows = told(capture)

    assert [seen.is_exempt for seen in rows] == [True, True, True, False]
    assert [seen.verdict for seen in rows] == ["forward", "exempt", "throttle", "throttle"]


def test_refused_and_lost_requests_are_captured_once() -> None:
    """They are answered by Sluice, or their connection ends."""
    verdicts = [Reject(44), FORWARD, Hold(1000, "key")]
    wire, capture = captured(Recorder(lambda _: verdicts.pop(0)))
    wire.client(f.heartbeat(1) + f.heartbeat(2) + f.heartbeat(3))
    wire.release()

    rows = told(capture)

    assert [seen.outcome for seen in rows] == [
        Outcome.ANSWERED,
        Outcome.DISCONNECTED,
        Outcome.DISCONNECTED,
    ]
    assert rows[0].verdict == "reject"


def test_requests_in_flight_at_the_end_of_a_capture_are_captured() -> None:
    """After `end_capture` no further request is captured, and the fast loop handles requests again."""
    wire, capture = captured()
    wire.client(f.heartbeat(1))
    assert not any(plan.fast_bytes for plan in wire.session.plans.by_kind.values())

    wire.engine.end_capture()
    wire.broker(f.heartbeat_reply(1))
    for number in (2, 3):
        wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))

    assert [seen.number for seen in told(capture)] == [1]
    assert all(plan.fast_bytes for plan in wire.session.plans.by_kind.values())


def test_rows_over_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not read in time: memory is bounded, and the count says how many are missing."""
    monkeypatch.setattr(captures, "MAX_ENDED", 2)
    wire, capture = captured()
    for number in range(1, 6):
        wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))

    assert [seen.number for seen in told(capture)] == [1, 2]
    assert capture.dropped == 3
