"""A RequestTrace as spans: their shape, their times, their number."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from policies.api import Outcome, QuotaViolation
from proxy.core.stats.request_trace import Stage
from proxy.telemetry.traces.spans import (
    SPAN_ID_MASK,
    Kind,
    Link,
    is_muted_after,
    mute_span,
    span_count,
    spans_of,
)
from tests.support.trails import EPOCH_US, trail, waits
from wire.apis import ApiKey

TRACE_ID = 0x0123456789ABCDEF_FEDCBA9876543211


def told(made):
    """Its spans, with ids from 1 on."""
    made.trace_id = f"{TRACE_ID:032x}"
    return spans_of(made, count(1).__next__)


def test_a_request_that_passed_is_a_server_span_with_one_child():
    """An ordinary request: SERVER from the first byte to the reply, CLIENT while the broker had it."""
    server, upstream = told(trail(upstream_us=5000))

    assert (server.kind, server.parent_id, server.trace_id) == (Kind.SERVER, 0, TRACE_ID)
    assert (server.start_ns, server.end_ns) == (EPOCH_US * 1000, (EPOCH_US + 5000) * 1000)
    assert (upstream.name, upstream.kind) == ("upstream", Kind.CLIENT)
    assert (upstream.trace_id, upstream.parent_id) == (TRACE_ID, server.span_id)
    assert (upstream.start_ns, upstream.end_ns) == (server.start_ns, server.end_ns)


def test_each_wait_is_a_child_in_its_order():
    """Receive, memory, throttle and purgatory come as INTERNAL spans, then upstream."""
    stages = waits(("receive", 300), ("memory", 200), ("throttle", 40_000), ("purgatory", 1000))
    server, *children = told(trail(stages))

    assert [child.name for child in children] == [
        *("receive", "memory", "throttle", "purgatory", "upstream"),
    ]
    assert {child.kind for child in children[:4]} == {Kind.INTERNAL}
    assert {child.parent_id for child in children} == {server.span_id}
    assert len({span.span_id for span in (server, *children)}) == 6


def test_the_server_spans_id_is_half_of_its_traces():
    """A link to it can be made from the trace id alone."""
    assert told(trail())[0].span_id == TRACE_ID & SPAN_ID_MASK


def test_a_wait_begun_again_at_once_is_one_span():
    """A quota that looks again and holds again has made one wait, which says how often."""
    again = waits(("throttle", 100), ("throttle", 200), ("throttle", 50))
    _, throttle, _ = told(trail(again))

    assert throttle.end_ns - throttle.start_ns == 350_000
    assert throttle.attributes["sluice.waits"] == 3


def test_waits_for_different_things_stay_apart():
    """Two holds of different policies are two spans."""
    first = Stage("purgatory", EPOCH_US, EPOCH_US + 10, "topic:a", "condition")
    second = Stage("purgatory", EPOCH_US + 10, EPOCH_US + 30, "topic:b", "expired")
    _, one, other, _ = told(trail([first, second]))

    assert [one.attributes["sluice.condition"], other.attributes["sluice.condition"]] == [
        *("topic:a", "topic:b"),
    ]
    assert other.attributes["sluice.purgatory.outcome"] == "expired"


def test_a_reply_made_here_that_waits_for_its_turn_is_told():
    """Refused behind a slow request: `turn` is the time until the replies before it were out."""
    server, turn = told(trail(upstream_us=None, outcome=Outcome.ANSWERED, turn_us=700))

    assert (turn.name, turn.kind) == ("turn", Kind.INTERNAL)
    assert (turn.start_ns, turn.end_ns) == (server.start_ns, server.end_ns)


def test_our_own_time_between_the_waits_is_told():
    """A held request goes on in its session's next turn: that is nobody's wait, and no gap either."""
    made = trail(waits(("purgatory", 1000)))
    made.forwarded_us += 40
    _, purgatory, turn, upstream = told(made)

    assert turn.name == "turn"
    assert (turn.start_ns, turn.end_ns) == (purgatory.end_ns, upstream.start_ns)
    assert turn.end_ns - turn.start_ns == 40_000


def test_a_reply_that_leaves_at_once_has_no_child():
    """Refused and answered in one step."""
    assert len(told(trail(upstream_us=None, outcome=Outcome.ANSWERED))) == 1


def test_a_request_without_reply_has_no_upstream():
    """acks=0: it is over when it has gone on."""
    assert len(told(trail(upstream_us=0, outcome=Outcome.NO_REPLY))) == 1


def test_expired_is_a_failure_of_the_request_and_of_the_broker():
    """The SERVER span and `upstream` have failed; the waits have not."""
    spans = told(trail(waits(("throttle", 10)), outcome=Outcome.EXPIRED))

    assert [span.failed for span in spans] == [True, False, True]


def test_a_refusal_is_a_failure_of_the_request_only():
    """The wait for its turn has not failed."""
    made = trail(upstream_us=None, outcome=Outcome.ANSWERED, turn_us=10)
    made.refused = 44

    assert [span.failed for span in told(made)] == [True, False]


def test_the_server_span_is_called_after_its_api():
    """Fetch knows no topic here."""
    assert told(trail(api_key=ApiKey.FETCH, version=12))[0].name == "Fetch"


def test_a_mute_is_a_root_linked_to_its_request():
    """From the reply to the end of the quiet, in a trace of its own."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, 10.0)
    made = trail(quiet_ms=250, excess=excess)
    made.trace_id = f"{TRACE_ID:032x}"
    mute = mute_span(made, made.ended_us + 250_000, lambda: 0x5_0000_0000_0000_0007)

    assert (mute.name, mute.kind, mute.parent_id) == ("mute", Kind.INTERNAL, 0)
    assert (mute.trace_id, mute.span_id) == (0x5_0000_0000_0000_0007, 7)
    assert mute.links == (Link(TRACE_ID, TRACE_ID & SPAN_ID_MASK),)
    assert (mute.start_ns, mute.end_ns) == (
        made.ended_us * 1000,
        (made.ended_us + 250_000) * 1000,
    )
    assert mute.attributes["sluice.throttle_time_ms"] == 250
    assert mute.attributes["sluice.quota.entity"] == "user alice"


def test_a_mute_is_told_only_if_it_goes_on_after_the_reply():
    """Not when the broker took longer than the throttle, nor when the reply is not out yet."""
    made = trail()
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
def test_children_add_up_and_are_counted(waited, upstream, turn_us, outcome):
    """Whatever happened: no gap and no overlap between the children, the SERVER span is their sum, and
    `span_count` knows their number.
    """
    made = trail(upstream_us=None, outcome=outcome)
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
    assert sum(child.took_ns for child in children) == server.took_ns
    at_ns = server.start_ns
    for child in children:
        assert child.start_ns == at_ns
        at_ns = child.end_ns
    for stage in made.stages:
        told_of = [
            c for c in children if c.name == stage.kind and c.start_ns <= stage.began_us * 1000
        ]
        assert any(stage.ended_us * 1000 <= c.end_ns for c in told_of)
