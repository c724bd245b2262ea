"""Spans of a request trace: their tree, their times, their number."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from policies.api import Outcome, QuotaViolation
from proxy.core.stats.request_trace import Stage
from proxy.telemetry.traces.spans import (
    SPAN_ID_MASK,
    Kind,
    SpanLink,
    is_muted_after,
    mute_span,
    span_count,
    spans_of,
)
from tests.support.telemetry.request_traces import EPOCH_US, trace, waits
from wire.apis import ApiKey

TRACE_ID = 0x0123456789ABCDEF_FEDCBA9876543211


def told(made):
    """Return its spans, with ids from 1 on."""
    made.trace_id = f"{TRACE_ID:032x}"
    return spans_of(made, count(1).__next__)


def test_an_ordinary_request_is_a_server_span_with_one_child():
    """SERVER lasts from the first byte to the reply, CLIENT while the broker has the request."""
    server, upstream = told(trace(upstream_us=5000))

    assert (server.kind, server.parent_id, server.trace_id) == (Kind.SERVER, 0, TRACE_ID)
    assert (server.start_ns, server.end_ns) == (EPOCH_US * 1000, (EPOCH_US + 5000) * 1000)
    assert (upstream.name, upstream.kind) == ("upstream", Kind.CLIENT)
    assert (upstream.trace_id, upstream.parent_id) == (TRACE_ID, server.span_id)
    assert (upstream.start_ns, upstream.end_ns) == (server.start_ns, server.end_ns)


def test_each_wait_is_a_child_span_in_order():
    """Receive, memory, throttle and purgatory are INTERNAL spans; upstream follows."""
    stages = waits(("receive", 300), ("memory", 200), ("throttle", 40_000), ("purgatory", 1000))
    server, *children = told(trace(stages))

    assert [child.name for child in children] == [
        *("receive", "memory", "throttle", "purgatory", "upstream"),
    ]
    assert {child.kind for child in children[:4]} == {Kind.INTERNAL}
    assert {child.parent_id for child in children} == {server.span_id}
    assert len({span.span_id for span in (server, *children)}) == 6


def test_a_hold_that_is_renewed_at_once_is_one_span_and_holds_of_two_policies_are_two():
    """A quota that holds a request again has made one wait, with a count."""
    again = waits(("throttle", 100), ("throttle", 200), ("throttle", 50))
    _, throttle, _ = told(trace(again))

    assert throttle.end_ns - throttle.start_ns == 350_000
    assert throttle.attributes["sluice.waits"] == 3

    first = Stage("purgatory", EPOCH_US, EPOCH_US + 10, "topic:a", "condition")
    second = Stage("purgatory", EPOCH_US + 10, EPOCH_US + 30, "topic:b", "expired")
    _, one, other, _ = told(trace([first, second]))

    assert [one.attributes["sluice.condition"], other.attributes["sluice.condition"]] == [
        *("topic:a", "topic:b"),
    ]
    assert other.attributes["sluice.purgatory.outcome"] == "expired"


def test_sluices_own_time_has_a_span():
    """`turn` lasts until earlier replies are sent, or until a held request is forwarded in its session's next turn."""
    server, turn = told(trace(upstream_us=None, outcome=Outcome.ANSWERED, turn_us=700))

    assert (turn.name, turn.kind) == ("turn", Kind.INTERNAL)
    assert (turn.start_ns, turn.end_ns) == (server.start_ns, server.end_ns)

    made = trace(waits(("purgatory", 1000)))
    made.forwarded_us += 40
    _, purgatory, turn, upstream = told(made)

    assert turn.name == "turn"
    assert (turn.start_ns, turn.end_ns) == (purgatory.end_ns, upstream.start_ns)
    assert turn.end_ns - turn.start_ns == 40_000


def test_a_request_that_takes_no_time_has_no_child_span():
    """It is refused and answered in one step, or ends when it is forwarded (acks=0)."""
    for upstream_us, outcome in ((None, Outcome.ANSWERED), (0, Outcome.NO_REPLY)):
        (server,) = told(
            trace(api_key=ApiKey.FETCH, version=12, upstream_us=upstream_us, outcome=outcome)
        )
        assert server.name == "Fetch", "the topic is unknown"


def test_an_expired_request_and_its_upstream_span_have_failed():
    """So has a refused one; the spans of their waits have not failed."""
    spans = told(trace(waits(("throttle", 10)), outcome=Outcome.EXPIRED))

    assert [span.failed for span in spans] == [True, False, True]
    refused = trace(upstream_us=None, outcome=Outcome.ANSWERED, turn_us=10)
    refused.refused = 44
    assert [span.failed for span in told(refused)] == [True, False]


def test_a_mute_is_a_root_linked_to_its_request():
    """It lasts from the reply to the end of the mute, in a trace of its own."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, 10.0)
    made = trace(quiet_ms=250, excess=excess)
    made.trace_id = f"{TRACE_ID:032x}"
    mute = mute_span(made, made.ended_us + 250_000, lambda: 0x5_0000_0000_0000_0007)

    assert (mute.name, mute.kind, mute.parent_id) == ("mute", Kind.INTERNAL, 0)
    assert (mute.trace_id, mute.span_id) == (0x5_0000_0000_0000_0007, 7)
    assert mute.links == (SpanLink(TRACE_ID, TRACE_ID & SPAN_ID_MASK),)
    assert (mute.start_ns, mute.end_ns) == (
        made.ended_us * 1000,
        (made.ended_us + 250_000) * 1000,
    )
    assert mute.attributes["sluice.throttle_time_ms"] == 250
    assert mute.attributes["sluice.quota.entity"] == "user alice"


def test_a_mute_has_a_span_only_if_it_lasts_longer_than_the_reply():
    """There is none if the broker took longer than the throttle, or if the reply is not sent yet."""
    made = trace()
    assert is_muted_after(made, made.ended_us + 1)
    assert not is_muted_after(made, made.ended_us)
    made.ended_us = 0
    assert not is_muted_after(made, EPOCH_US)


lengths = st.integers(0, 10_000_000)
gaps = st.sampled_from([0, 0, 0, 30])
kinds = st.sampled_from(["receive", "memory", "throttle", "purgatory"])


@given(
    st.lists(st.tuples(gaps, kinds, lengths, st.sampled_from(["", "topic:a"]))),
    st.none() | st.tuples(gaps, lengths),
    lengths,
    st.sampled_from(Outcome),
)
def test_child_spans_add_up_to_the_server_span(waited, upstream, turn_us, outcome):
    """For any request there is no gap and no overlap between them, and `span_count` is their number plus one."""
    made = trace(upstream_us=None, outcome=outcome)
    at_us = made.began_us
    for gap_us, kind, took_us, detail in waited:
        made.stages.append(Stage(kind, at_us + gap_us, at_us + gap_us + took_us, detail))
        at_us += gap_us + took_us
    if upstream is None:
        made.ended_us = at_us + turn_us
    else:
        made.forwarded_us = at_us + upstream[0]
        made.ended_us = made.forwarded_us + upstream[1]
    server, *children = told(made)

    assert span_count(made) == 1 + len(children)
    at_ns = server.start_ns
    for child in children:
        assert child.start_ns == at_ns
        at_ns = child.end_ns
    assert at_ns == server.end_ns
    for stage in made.stages:
        told_of = [
            c for c in children if c.name == stage.kind and c.start_ns <= stage.began_us * 1000
        ]
        assert any(stage.ended_us * 1000 <= c.end_ns for c in told_of)
