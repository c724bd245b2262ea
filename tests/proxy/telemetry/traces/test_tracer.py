"""The tracer on the event loop: requests that get a trace, dropped spans, and their count."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import Outcome
from proxy.telemetry.traces.tracer import Tracer
from tests.support.core.sessions import make_engine
from tests.support.telemetry.request_traces import EPOCH_US, Kept, trace, waits
from wire.produce import ProduceWalker


def tracer(sink=None, *, rate=1000, **options):
    """Return a tracer that delivers only when it is closed."""
    made = Tracer(sink or Kept(), max_spans_per_second=rate, delay_ms=60_000, **options)
    made.start()
    return made


def test_a_request_gets_the_trace_id_of_its_spans():
    """The id is in its request trace; no other request has it, and its lower half, a span's id, is not 0."""
    sink = Kept()
    tracing, traces = tracer(sink), [trace() for _ in range(200)]
    for each in traces:
        tracing.on_trace(each)
    tracing.close()

    assert all(re.fullmatch("[0-9a-f]{32}", each.trace_id) for each in traces)
    assert len({each.trace_id for each in traces}) == 200
    assert all(int(each.trace_id[16:], 16) for each in traces)
    assert [span.trace_id for span in sink.spans[::2]] == [
        int(each.trace_id, 16) for each in traces
    ]
    assert (tracing.delivered, tracing.dropped) == (400, 0)


def test_a_mute_is_exported_with_its_request_and_not_without():
    """Its span follows and is linked; there is none if the throttle ended before the reply."""
    sink = Kept()
    tracing, made = tracer(sink), trace(quiet_ms=100)
    tracing.on_trace(made)
    tracing.on_unmuted(made, made.ended_us + 100_000)
    tracing.close()

    server, _, mute = sink.spans
    assert (mute.name, mute.links) == ("mute", ((server.trace_id, server.span_id),))

    sink = Kept()
    tracing = tracer(sink)
    early, unnamed = trace(quiet_ms=1), trace(quiet_ms=1)
    tracing.on_trace(early)
    tracing.on_unmuted(early, early.ended_us)
    tracing.on_unmuted(unnamed, unnamed.ended_us + 5000)
    tracing.close()

    assert [span.name for span in sink.spans] == ["Produce", "upstream"]
    assert tracing.dropped == 0


def test_spans_over_the_rate_are_dropped_and_counted():
    """A burst of twice the rate passes; further requests have no trace id and are counted in spans."""
    tracing = tracer(rate=10)
    traces = [trace() for _ in range(15)]
    for each in traces:
        tracing.on_trace(each)
    tracing.close()

    assert [bool(each.trace_id) for each in traces] == [True] * 10 + [False] * 5
    assert (tracing.delivered, tracing.dropped) == (20, 10)


def test_the_rate_fills_a_token_bucket_and_can_be_changed():
    """At ten spans a second, half a second allows two more requests of two spans. A reload may change the rate."""
    tracing = tracer(rate=10)
    for _ in range(10):
        tracing.on_trace(trace())
    later = [trace(began_us=EPOCH_US + 500_000) for _ in range(4)]
    for each in later:
        tracing.on_trace(each)
    tracing.close()

    assert [bool(each.trace_id) for each in later] == [True, True, False, False]

    tracing = tracer(rate=1)
    tracing.on_trace(trace())
    tracing.set_rate(1000)
    much_later = [trace(began_us=EPOCH_US + 10_000_000) for _ in range(100)]
    for each in much_later:
        tracing.on_trace(each)
    tracing.close()

    assert all(each.trace_id for each in much_later)


def test_a_request_with_more_spans_than_the_bucket_passes():
    """At one span a second a request of five is exported, and paid for afterwards."""
    tracing = tracer(rate=1)
    long = trace(waits(("receive", 1), ("memory", 1), ("throttle", 1), ("purgatory", 1)))
    tracing.on_trace(long)
    after = [trace(began_us=EPOCH_US + seconds * 1_000_000) for seconds in (3, 4, 7)]
    for each in after:
        tracing.on_trace(each)
    tracing.close()

    assert long.trace_id
    assert [bool(each.trace_id) for each in after] == [False, False, True]


def test_a_full_queue_drops_its_oldest_request():
    """It is counted."""
    sink = Kept()
    tracing = tracer(sink, max_queued_spans=3)
    traces = [trace() for _ in range(5)]
    for each in traces:
        tracing.on_trace(each)
    tracing.close()

    told = {f"{span.trace_id:032x}" for span in sink.spans}
    assert told == {each.trace_id for each in traces[2:]}
    assert (tracing.delivered, tracing.dropped) == (6, 4)


@pytest.mark.parametrize(
    ("kept", "stays"),
    [(bytes(1024), True), (bytearray(1024), True), (bytes(1025), False), (ProduceWalker(9), False)],
)
def test_the_queue_does_not_keep_large_requests(kept, stays):
    """A Produce of a hundred thousand partitions waits without them for a collector that hangs."""
    tracing, made = tracer(), trace()
    made.kept = kept
    tracing.on_trace(made)

    assert (made.kept is not None) is stays
    tracing.close()


def test_a_closed_tracer_drops_everything():
    """A second `close` does nothing."""
    tracing, made = tracer(), trace()
    tracing.close()
    tracing.on_trace(made)
    tracing.close()

    assert (made.trace_id, tracing.delivered, tracing.dropped) == ("", 0, 2)


def test_addresses_that_the_engine_learns_are_used():
    """They are learnt after the tracer was made."""
    sink, engine = Kept(), make_engine()
    tracing = tracer(sink)
    tracing.attach(engine)
    engine.topology.learn({2: (b"broker-2", 9092)})
    tracing.on_trace(trace())
    tracing.close()

    assert sink.spans[1].attributes["server.address"] == "broker-2"


LAST = [(0, [], Outcome.REPLIED, False)]
events = st.lists(
    st.tuples(
        st.integers(0, 2_000_000),  # microseconds since the last one
        st.lists(st.sampled_from(["throttle", "purgatory"]), max_size=4),
        st.sampled_from([Outcome.REPLIED, Outcome.NO_REPLY, Outcome.EXPIRED]),
        st.booleans(),  # whether a mute follows
    ),
    max_size=60,
)


@given(events, st.integers(1, 50), st.integers(1, 20), st.integers(0, 60), st.booleans())
def test_every_span_is_delivered_or_dropped_once(
    happened, rate, max_queued_spans, starts_at, refuses
):
    """This holds for any rate of requests, a thread that runs at any moment, and an exporter that may refuse."""
    sink = Kept("refused" if refuses else "")
    tracing = Tracer(
        sink,
        max_spans_per_second=rate,
        max_queued_spans=max_queued_spans,
        delay_ms=1,
        max_batch_spans=4,
    )
    offered, now_us = 0, EPOCH_US
    for place, (passed_us, kinds, outcome, muted) in enumerate([*happened, *LAST]):
        now_us += passed_us
        stages = waits(*((kind, 10) for kind in kinds), began_us=now_us)
        made = trace(stages, 30, outcome=outcome, began_us=now_us)
        runs = sum(a != b for a, b in zip([None, *kinds], kinds, strict=False))
        offered += 2 + runs
        tracing.on_trace(made)
        if muted and made.trace_id:
            offered += 1
            tracing.on_unmuted(made, made.ended_us + 1)
        if place == min(starts_at, len(happened)):
            tracing.start()
    tracing.close(60)

    assert tracing.delivered == len(sink.spans)
    assert tracing.delivered + tracing.dropped == offered
