"""Throttled requests: they go on at once, their client is muted behind them, their reply says how long."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Forward, Need, Outcome, Patch, Throttle
from proxy.core.session.channel import Mute
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.quiet import OnlyAsked, Quiet, assert_usual_again, throttled
from tests.support.sessions import Wire, make_engine
from tests.support.throttled import KINDS, SILENT, fetch

NEEDS = pytest.mark.parametrize("needs", list(Need), ids=lambda need: need.name)
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
STAMPED = [name for name in KINDS if name != "heartbeat-v0"]


# -- a request is throttled ---------------------------------------------------------------------


@NEEDS
@EVERY
def test_a_throttled_request_goes_on_at_once_and_what_follows_stays_unread(kind, needs):
    """Read already: kept and counted. Sent later: not read. Until the time has come."""
    wire = throttled(kind, needs)
    assert wire.to_broker == kind.ask(1)
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.session.unusual_requests
    assert wire.held_bytes == len(kind.ask(2))
    wire.client(kind.ask(3))
    assert wire.unread == kind.ask(3)
    wire.advance(499)
    assert wire.to_broker == kind.ask(1)
    wire.advance(1)
    assert wire.to_broker == kind.ask(1) + kind.ask(2) + kind.ask(3)


@NEEDS
@EVERY
@pytest.mark.parametrize("policy", [Quiet, OnlyAsked])
def test_after_the_unmute_all_is_as_before(kind, needs, policy):
    """The fast loops settle what comes, and nothing is held; whoever listens."""
    wire = throttled(kind, needs, policy=policy)
    wire.advance(100)
    wire.broker(kind.reply(1, 0))
    assert wire.to_client == kind.seen(1, 400)
    wire.advance(400)
    wire.broker(kind.reply(2, 0))
    assert wire.to_client == kind.seen(1, 400) + kind.seen(2, 0)
    assert_usual_again(wire)
    wire.release()
    assert wire.engine.timers.next_ms() is None


@NEEDS
@EVERY
def test_the_first_request_of_its_kind_may_be_throttled_as_well(kind, needs):
    """Nothing is known of its kind yet: the long way leads to the same."""
    wire = Wire(make_engine([Quiet(needs=needs)])).client(kind.ask(1) + kind.ask(2))
    assert wire.to_broker == kind.ask(1)
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.held_bytes == len(kind.ask(2))
    wire.broker(kind.reply(1, 0))
    assert wire.to_client == kind.seen(1, 500)
    wire.advance(500)
    assert wire.to_broker == kind.ask(1) + kind.ask(2)
    wire.broker(kind.reply(2, 0))
    assert_usual_again(wire)


def test_after_the_unmute_requests_and_replies_are_sent_from_where_they_lie():
    """The answer is an offset, not a call for attention: the fast loops have settled them."""
    wire = throttled(KINDS["heartbeat-v1"])
    wire.broker(f.beat_reply(1))
    wire.advance(500)
    wire.broker(f.beat_reply(2))
    buf = bytearray(f.beat(3) + f.beat(4))
    assert wire.session.from_client(buf, 0, len(buf), 500) == len(buf)
    buf = bytearray(f.beat_reply(3) + f.beat_reply(4))
    assert wire.session.from_broker(buf, 0, len(buf), 500) == len(buf)


@NEEDS
@pytest.mark.parametrize("name", STAMPED)
@pytest.mark.parametrize("passed_ms", [120, 500])
def test_the_reply_says_what_is_left_wherever_it_is_cut(name, needs, passed_ms):
    """In any two reads, behind another reply, before none: stamped while there is something left."""
    kind = KINDS[name]
    replies = kind.reply(1, 0) + kind.reply(2, 0)
    for cut in range(1, len(replies) + 1):
        policy = Recorder(lambda r: Throttle(500) if r.exchange_id == 2 else FORWARD, needs=needs)
        policy.response_apis = frozenset()
        wire = Wire(make_engine([policy])).client(kind.ask(1)).client(kind.ask(2))
        wire.advance(passed_ms)
        wire.broker(replies[:cut]).broker(replies[cut:])
        assert wire.to_client == kind.seen(1, 0) + kind.seen(2, 500 - passed_ms), cut
        assert policy.completed == [(1, Outcome.REPLIED), (2, Outcome.REPLIED)]
        assert wire.session.unusual_replies == 0
        wire.release()
        assert wire.held_bytes == 0


@given(
    st.sampled_from(STAMPED),
    st.sampled_from(Need),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(0, 600),
)
def test_any_chunking_gives_the_same_bytes(name, needs, chunk, back, passed_ms):
    """Requests and replies in pieces, the second read long after the first."""
    kind = KINDS[name]
    wire = Wire(make_engine([Quiet(needs=needs)]))
    wire.client(kind.ask(1) + kind.ask(2), chunk)
    wire.advance(passed_ms)
    wire.broker(kind.reply(1, 0), back)
    assert wire.to_client == kind.seen(1, max(0, 500 - passed_ms))
    wire.advance(500)
    assert wire.to_broker == kind.ask(1) + kind.ask(2)
    wire.broker(kind.reply(2, 0), back)
    assert wire.to_client == kind.seen(1, max(0, 500 - passed_ms)) + kind.seen(2, 0)
    assert_usual_again(wire)


@NEEDS
@pytest.mark.parametrize("chunk", [64, 1000])
def test_the_mute_begins_behind_the_requests_last_byte(needs, chunk):
    """A request that streams in several reads is never cut by its own throttle."""
    asked = f.produce(1, size_bytes=3000)
    wire = Wire(make_engine([Quiet(needs=needs)]))
    wire.client(asked[:2000], chunk)
    assert not wire.session.client.muted
    assert wire.to_broker == (b"" if needs is Need.BODY else asked[:2000])
    wire.client(asked[2000:] + f.produce(2), chunk)
    assert wire.to_broker == asked
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.held_bytes + len(wire.unread) == len(f.produce(2))
    wire.advance(500)
    assert wire.to_broker == asked + f.produce(2)
    wire.broker(f.produce_reply(1) + f.produce_reply(2))
    assert_usual_again(wire)


@pytest.mark.parametrize("needs", [Need.HEADER, Need.HEAD])
def test_a_throttle_that_ends_before_its_request_does_mutes_nobody(needs):
    """The request was slower than its punishment."""
    asked = f.produce(1, size_bytes=3000)
    wire = Wire(make_engine([Quiet(needs=needs)])).client(asked[:2000])
    wire.advance(500)
    wire.client(asked[2000:] + f.produce(2))
    assert not wire.session.client.muted
    assert wire.to_broker == asked + f.produce(2)
    wire.broker(f.produce_reply(1) + f.produce_reply(2))
    assert wire.to_client == f.produce_reply(1) + f.produce_reply(2)
    assert_usual_again(wire)


@NEEDS
def test_a_request_without_reply_is_throttled_like_any_other(needs):
    """There is nothing to write it into; the mute says it."""
    wire = throttled(SILENT, needs)
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.to_broker == SILENT.ask(1)
    wire.advance(500)
    assert wire.to_broker == SILENT.ask(1) + SILENT.ask(2)
    assert_usual_again(wire)


def test_a_throttled_fetch_may_be_patched():
    """Both at once: kept whole, changed, sent on; then its client is muted."""
    smaller = Forward(patches=(Patch(12, struct.pack(">i", 77)),))
    wire = Wire(make_engine([Quiet(forward=smaller, needs=Need.HEAD)]))
    wire.client(fetch(1) + fetch(2))
    assert wire.to_broker == fetch(1, max_bytes=77)
    assert wire.session.client.muted == Mute.THROTTLED
    wire.advance(500)
    assert wire.to_broker == fetch(1, max_bytes=77) + fetch(2)


def test_a_throttled_produces_walker_still_sees_its_body():
    """Need.HEAD: topics are complete by the end."""
    policy = Quiet(needs=Need.HEAD)
    wire = Wire(make_engine([policy])).client(f.produce(1, topic="orders") + f.produce(2), 30)
    assert policy.heads[0].topics == [("orders", [0])]
    assert policy.asked == [1]
    wire.advance(500)
    assert policy.asked == [1, 2]


# -- the broker's own figure ----------------------------------------------------------------------


@NEEDS
@pytest.mark.parametrize("name", STAMPED)
def test_the_brokers_larger_figure_stays_and_prolongs_the_mute(name, needs):
    """Never more lenient than the broker; never two delays one after the other."""
    kind = KINDS[name]
    wire = throttled(kind, needs)
    wire.advance(100)
    wire.broker(kind.reply(1, 900))
    assert wire.to_client == kind.seen(1, 900)
    wire.advance(899)
    assert wire.to_broker == kind.ask(1)
    wire.advance(1)
    assert wire.to_broker == kind.ask(1) + kind.ask(2)


@pytest.mark.parametrize("name", STAMPED)
def test_the_brokers_smaller_figure_is_raised(name):
    """What is left is ours, and the mute is no longer for it."""
    kind = KINDS[name]
    wire = throttled(kind)
    wire.broker(kind.reply(1, 300))
    assert wire.to_client == kind.seen(1, 500)
    wire.advance(500)
    assert wire.to_broker == kind.ask(1) + kind.ask(2)


def test_who_is_not_throttled_here_keeps_the_brokers_figure_and_is_not_muted():
    """The client keeps the pause by itself, as it does without us."""
    wire = Wire(make_engine([Recorder()])).client(f.beat(1)).broker(f.beat_reply(1, 900))
    assert wire.to_client == f.beat_reply(1, 900)
    assert not wire.session.client.muted


@pytest.mark.parametrize("name", STAMPED)
def test_a_throttle_that_is_over_writes_nothing(name):
    """Not even a zero over the broker's figure, and it mutes nobody again."""
    kind = KINDS[name]
    wire = throttled(kind)
    wire.advance(500)
    wire.broker(kind.reply(1, 0) + kind.reply(2, 300))
    assert wire.to_client == kind.seen(1, 0) + kind.seen(2, 300)
    assert_usual_again(wire)
