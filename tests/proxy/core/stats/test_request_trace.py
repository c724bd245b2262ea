"""Request traces: which requests have one, and what it contains."""

import pytest

from policies.api import FORWARD, Hold, Outcome, QuotaViolation, Reject, Throttle
from proxy.core.session.exchange import Exchange
from proxy.core.stats.request_trace import RequestTrace, Stage
from tests.support.core.ledger import Ledger, TimedWire, make_counting_engine
from tests.support.core.policies import Recorder
from tests.support.messages import frames as f
from tests.support.messages.waiting import FETCH_MS, fetch_waiting
from wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
NOW_US = NOW_MS * 1000
WHY = QuotaViolation("user=alice", "request_rate", 12.0, 10.0)


def wired(decide=lambda _: FORWARD, *policies, **options) -> tuple[TimedWire, Ledger]:
    options = {"keeps_traces": True, **options}
    engine, ledger = make_counting_engine(policies or [Recorder(decide)], now_ms=NOW_MS, **options)
    return TimedWire(engine), ledger


def once(verdict):
    """Return a policy function with this verdict for the first request and FORWARD for all others."""
    left = [verdict]
    return lambda _: left.pop() if left else FORWARD


def test_the_trace_of_a_throttled_request_has_its_times():
    """It has arrival, forwarding and reply, the policy, the length of the throttle, and its end."""
    wire, ledger = wired(once(Throttle(300, why=WHY)))
    wire.client(f.beat(1))
    wire.pass_us(40_500)
    wire.broker(f.beat_reply(1))
    (trace,) = ledger.traces
    assert (trace.api.name, trace.correlation_id) == ("Heartbeat", 1)
    assert (trace.peer.client_id, trace.size_bytes) == ("tests", len(f.beat(1)) - 4)
    assert (trace.began_us, trace.forwarded_us, trace.ended_us) == (
        NOW_US,
        NOW_US,
        NOW_US + 40_500,
    )
    assert (trace.outcome, trace.excess, trace.refused) == (Outcome.REPLIED, WHY, 0)
    assert trace.reply_bytes == len(f.beat_reply(1)) - 4
    assert trace.throttle_until_ms == NOW_MS + 300
    assert trace.throttle_time_ms() == 300 - 40
    assert ledger.unmuted == []
    wire.pass_us(1_000_000)
    assert ledger.unmuted == [(trace, NOW_US + 300_000)]


def test_a_wait_for_a_quota_and_a_wait_for_a_condition_are_told_apart():
    """The stage of the first is `throttled`, of the second `purgatory`."""
    verdicts = [FORWARD, Hold(9000, "key"), Hold(500, "line", throttles=True, why=WHY)]
    wire, ledger = wired(lambda _: verdicts.pop())
    wire.client(f.heartbeat(1))
    wire.pass_us(200_000)
    wire.wake("line")
    wire.pass_us(50_000)
    wire.wake("key")
    wire.pass_us(7_000)
    wire.broker(f.heartbeat_reply(1))
    (trace,) = ledger.traces
    assert [
        (each.kind, each.began_us - NOW_US, each.ended_us - NOW_US) for each in trace.stages
    ] == [
        ("throttle", 0, 200_000),
        ("purgatory", 200_000, 250_000),
    ]
    assert [each.outcome for each in trace.stages] == ["condition", "condition"]
    assert trace.stages[1].detail == "key"
    assert trace.excess == WHY
    assert (trace.forwarded_us, trace.ended_us) == (NOW_US + 250_000, NOW_US + 257_000)


@pytest.mark.parametrize("leaves", [False, True])
def test_the_end_of_a_hold_is_marked_in_its_trace(leaves):
    """It expires, and its `then` verdict is applied; or its client leaves, and the trace ends with it."""
    wire, ledger = wired(once(Hold(300, "key")))
    wire.client(f.heartbeat(1))
    wire.pass_us(20_000 if leaves else 301_000)
    if leaves:
        wire.hang_up()
    else:
        wire.broker(f.heartbeat_reply(1))
    (trace,) = ledger.traces
    (stage,) = trace.stages
    assert stage.outcome == ("client_gone" if leaves else "expired")
    assert stage.ended_us - stage.began_us == (20_000 if leaves else 300_000)
    assert trace.outcome is (Outcome.DISCONNECTED if leaves else Outcome.REPLIED)
    assert bool(trace.forwarded_us) is not leaves


def test_the_trace_of_a_refused_request_has_its_error():
    """And the entry that refused it, with the reason, for the audit log. The request is not forwarded."""
    wire, ledger = wired(once(Reject(ErrorCode.POLICY_VIOLATION, message="it is late")))
    wire.client(f.heartbeat(1))
    (trace,) = ledger.traces
    assert (trace.refused, trace.outcome, trace.forwarded_us) == (44, Outcome.ANSWERED, 0)
    assert (trace.refused_by, trace.refused_because, trace.is_news) == ("p0", "it is late", True)
    assert trace.reply_bytes == len(f.split(wire.to_client)[0]) - 4


def test_a_fetch_answered_in_the_brokers_place_has_a_trace():
    """The request was forwarded, and Sluice answered it at its deadline."""
    wire, ledger = wired()
    wire.client(fetch_waiting(1))
    wire.pass_us((FETCH_MS + 1) * 1000)
    (trace,) = ledger.traces
    assert trace.outcome is Outcome.EXPIRED
    assert trace.forwarded_us == NOW_US
    assert trace.ended_us - trace.began_us == FETCH_MS * 1000
    assert trace.reply_bytes > 0


def test_a_slow_reply_has_a_trace_and_a_quick_one_has_none():
    """A reply over `slow_ms` is slow; the wait that a Fetch asks for does not count."""
    wire, ledger = wired(slow_ms=100)
    for number, us in ((1, 99_999), (2, 100_000)):
        wire.client(f.heartbeat(number))
        wire.pass_us(us)
        wire.broker(f.heartbeat_reply(number))
    wire.client(fetch_waiting(3))
    wire.pass_us(550_000)
    wire.broker(f.reply(3, bytes(40)))
    assert [(trace.correlation_id, trace.slow) for trace in ledger.traces] == [(2, True)]


@pytest.mark.parametrize("policies", [(), (Recorder(),)], ids=["fast", "general"])
def test_one_request_in_sample_every_is_sampled(policies):
    """This holds for each session and on both paths; the other requests have no trace."""
    engine, ledger = make_counting_engine(
        policies, now_ms=NOW_MS, keeps_traces=True, sample_every=10
    )
    for _ in range(20):
        wire = TimedWire(engine)
        for number in range(1, 31):
            wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))
    assert len(ledger.traces) == 60
    assert all(trace.sampled for trace in ledger.traces)
    first = {trace.correlation_id for trace in ledger.traces if trace.correlation_id <= 10}
    assert len(first) > 5  # the samples are not at one place


def test_a_batch_is_sampled_once():
    """One of a thousand requests in one read has a trace, and it is the newest."""
    wire, ledger = wired(sample_every=10)
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.client(b"".join(f.heartbeat(n) for n in range(2, 1002)))
    wire.broker(b"".join(f.heartbeat_reply(n) for n in range(2, 1002)))
    assert [trace.correlation_id for trace in ledger.traces] == [1001]


def test_an_ordinary_request_has_no_trace():
    """Not even an empty one is made."""
    wire, ledger = wired()
    wire.client(f.heartbeat(1))
    (exchange,) = wire.session.queue
    assert isinstance(exchange, Exchange)
    assert exchange.trace is None
    wire.broker(f.heartbeat_reply(1))
    assert ledger.traces == []


def test_without_an_exporter_no_trace_is_made():
    """A throttle works all the same."""
    wire, ledger = wired(once(Throttle(300)), keeps_traces=False, slow_ms=1, sample_every=1)
    wire.client(f.beat(1))
    wire.pass_us(50_000)
    wire.broker(f.beat_reply(1))
    wire.pass_us(1_000_000)
    assert (ledger.traces, ledger.unmuted) == ([], [])
    assert wire.to_client == f.beat_reply(1, 250)


def test_the_trace_of_a_slow_request_has_the_time_it_took_to_arrive():
    """It runs from the request's first byte to its last; the broker's time starts after it."""
    wire, ledger = wired(slow_ms=100)
    frame = f.produce(1, size_bytes=500)
    wire.client(frame[:100])
    wire.pass_us(150_000)
    wire.client(frame[100:])
    wire.pass_us(3_000)
    wire.broker(f.produce_reply(1))
    (trace,) = ledger.traces
    assert trace.stages == [Stage("receive", NOW_US, NOW_US + 150_000)]
    assert trace.began_us == NOW_US
    assert (trace.forwarded_us, trace.ended_us) == (NOW_US + 150_000, NOW_US + 153_000)


def test_the_end_of_a_throttle_that_grew_is_reported_once():
    """It is reported for the request with the longest throttle."""
    verdicts = [Throttle(800), Throttle(300)]
    wire, ledger = wired(lambda _: verdicts.pop())
    wire.client(f.produce(1, acks=0) + f.produce(2, acks=0))
    wire.pass_us(2_000_000)
    told = [trace.correlation_id for trace, _ in ledger.unmuted]
    assert told == [1, 2]


def test_the_end_of_a_throttle_is_reported_when_its_client_leaves():
    """The throttle ends with the connection."""
    wire, ledger = wired(once(Throttle(5000)))
    wire.client(f.beat(1))
    wire.pass_us(10_000)
    wire.session.client_lost(wire.now_ms)
    wire.release()
    assert [(trace.correlation_id, us - NOW_US) for trace, us in ledger.unmuted] == [(1, 10_000)]


def test_the_rest_of_a_throttle_is_never_negative():
    """The reply arrived after its end."""
    trace = RequestTrace(NOW_US)
    trace.throttle_until_ms = NOW_MS + 10
    trace.ended_us = NOW_US + 15_000
    assert trace.throttle_time_ms() == 0
