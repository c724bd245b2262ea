"""A throttled request is forwarded at once; then the client is muted, and the reply carries the throttle time.

`test_differential.py` has any mixture of throttles of policies and of the broker, under any chunking.
"""

import struct
from itertools import product

import pytest

from policies.api import FORWARD, Forward, Need, Outcome, Patch, Respond, Throttle
from proxy.core.session.channel import ATTENTION, Mute
from proxy.core.session.questions import inquire
from proxy.core.turns import TURN_LABOUR_BYTES
from tests.support.core.policies import Recorder
from tests.support.core.quiet import OnlyAsked, Quiet, assert_usual_again, throttled
from tests.support.core.session_state import is_diverted
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import KINDS, fetch

STAMPED = [name for name in KINDS if name != "heartbeat-v0"]


# -- a request is throttled ---------------------------------------------------------------------


@for_each(product(KINDS, Need, [Quiet, OnlyAsked]))
def test_a_throttled_request_is_forwarded_at_once_and_later_ones_wait(name, needs, policy):
    """Those already read are kept and counted, later ones are not read; after it the session is as it was."""
    kind = KINDS[name]
    wire = throttled(kind, needs, policy=policy)
    assert wire.to_broker == kind.ask(1)
    assert wire.session.client.muted == Mute.THROTTLED
    assert is_diverted(wire.session)
    assert wire.held_bytes == len(kind.ask(2))
    wire.client(kind.ask(3))
    assert wire.unread == kind.ask(3)
    wire.advance(100)
    wire.broker(kind.reply(1, 0))
    assert wire.to_client == kind.seen(1, 400)
    wire.advance(399)
    assert wire.to_broker == kind.ask(1)
    wire.advance(1)
    assert wire.to_broker == kind.ask(1) + kind.ask(2) + kind.ask(3)
    wire.broker(kind.reply(2, 0) + kind.reply(3, 0))
    assert wire.to_client == kind.seen(1, 400) + kind.seen(2, 0) + kind.seen(3, 0)
    assert_usual_again(wire)
    wire.release()
    assert wire.engine.timers.next_ms() is None


def test_after_a_throttle_requests_and_replies_are_sent_from_the_read_buffer():
    """The session returns an offset and does not raise its uses_outboxes flag."""
    wire = throttled(KINDS["heartbeat-v1"])
    wire.broker(f.beat_reply(1))
    wire.advance(500)
    wire.broker(f.beat_reply(2))
    buf = bytearray(f.beat(3) + f.beat(4))
    assert wire.session.from_client(buf, 0, len(buf), 500) == len(buf)
    buf = bytearray(f.beat_reply(3) + f.beat_reply(4))
    assert wire.session.from_broker(buf, 0, len(buf), 500) == len(buf)


@for_each([*product(STAMPED, Need, [120]), *product(STAMPED, [Need.HEADER], [500])])
def test_the_reply_has_the_remaining_throttle_time_under_any_chunking(name, needs, passed_ms):
    """It may come in two reads, after another reply or alone; it is stamped while time remains."""
    kind = KINDS[name]
    replies = kind.reply(1, 0) + kind.reply(2, 0)
    size = len(replies)
    for cut in range(1, size + 1) if needs is Need.HEADER else (1, size // 2, size):
        policy = Recorder(lambda r: Throttle(500) if r.exchange_id == 2 else FORWARD, needs=needs)
        policy.response_apis = frozenset()
        wire = Wire(make_engine([policy])).client(kind.ask(1)).client(kind.ask(2))
        wire.advance(passed_ms)
        wire.broker(replies[:cut]).broker(replies[cut:])
        assert wire.to_client == kind.seen(1, 0) + kind.seen(2, 500 - passed_ms), cut
        assert policy.completed == [(1, Outcome.REPLIED), (2, Outcome.REPLIED)]
        assert wire.session.queue.diverted == 0
        wire.release()
        assert wire.held_bytes == 0


@pytest.mark.parametrize("needs", [Need.HEADER, Need.HEAD])
def test_a_throttle_that_ends_before_its_request_mutes_no_client(needs):
    """The request took longer to arrive than the throttle lasts."""
    asked = f.produce(1, size_bytes=3000)
    wire = Wire(make_engine([Quiet(needs=needs)])).client(asked[:2000])
    wire.advance(500)
    wire.client(asked[2000:] + f.produce(2))
    assert not wire.session.client.muted
    assert wire.to_broker == asked + f.produce(2)
    wire.broker(f.produce_reply(1) + f.produce_reply(2))
    assert wire.to_client == f.produce_reply(1) + f.produce_reply(2)
    assert_usual_again(wire)


def test_a_throttled_fetch_may_be_patched():
    """The request is kept whole, changed and forwarded; then its client is muted."""
    smaller = Forward(patches=(Patch(12, struct.pack(">i", 77)),))
    wire = Wire(make_engine([Quiet(forward=smaller, needs=Need.HEAD)]))
    wire.client(fetch(1) + fetch(2))
    assert wire.to_broker == fetch(1, max_bytes=77)
    assert wire.session.client.muted == Mute.THROTTLED
    wire.advance(500)
    assert wire.to_broker == fetch(1, max_bytes=77) + fetch(2)


# -- the broker's own throttle time ---------------------------------------------------------------


@for_each(product(STAMPED, Need, [(900, 900), (0x7FFF_FFFF, 600_000)]))
def test_the_brokers_larger_throttle_time_stays_and_mutes_for_ten_minutes_at_most(
    name, needs, times
):
    """The client never waits less than the broker asks, and never twice. One that has left would else be kept for 24
    days: a muted client is not read.
    """
    said_ms, muted_ms = times
    kind = KINDS[name]
    wire = throttled(kind, needs)
    wire.advance(100)
    wire.broker(kind.reply(1, said_ms))
    assert wire.to_client == kind.seen(1, said_ms)
    wire.advance(muted_ms - 1)
    assert wire.to_broker == kind.ask(1)
    wire.advance(1)
    assert wire.to_broker == kind.ask(1) + kind.ask(2)


# -- a reply is throttled -------------------------------------------------------------------------


@for_each(product(KINDS, [1, 11, 1000]))
def test_a_policy_may_throttle_at_a_reply(name, chunk):
    """The throttle starts then; the reply carries it, and requests that were read before stay in flight."""
    kind = KINDS[name]
    once = iter([Throttle(400)])
    policy = Recorder(hear=lambda _: next(once, FORWARD))
    wire = Wire(make_engine([policy])).client(kind.ask(1) + kind.ask(2))
    wire.advance(50)
    wire.broker(kind.reply(1, 0) + kind.reply(2, 7), chunk)
    assert wire.to_client == kind.seen(1, 400) + kind.seen(2, 7)
    zero = name == "heartbeat-v0"
    assert policy.said == ([0, 0] if zero else [0, 7])
    assert [n for n, _ in policy.completed] == [1, 2]
    assert wire.session.client.muted == Mute.THROTTLED
    wire.client(kind.ask(3))
    assert wire.to_broker == kind.ask(1) + kind.ask(2)
    wire.advance(400)
    assert wire.to_broker == kind.ask(1) + kind.ask(2) + kind.ask(3)
    assert_usual_again(wire)


def test_a_throttle_during_a_request_mutes_the_client_after_it():
    """A client is never muted inside a request."""
    asked = f.produce(2, size_bytes=900)
    policy = Recorder(hear=lambda _: Throttle(400), response_apis={f.HEARTBEAT})
    wire = Wire(make_engine([policy])).client(f.beat(1) + asked[:300])
    wire.broker(f.beat_reply(1))
    assert wire.to_client == f.beat_reply(1, 400)
    assert not wire.session.client.muted
    wire.client(asked[300:])
    assert wire.to_broker == f.beat(1) + asked
    assert wire.session.client.muted == Mute.THROTTLED
    wire.advance(400)
    wire.broker(f.produce_reply(2))
    assert_usual_again(wire)


def test_a_throttle_by_an_answer_of_a_policy_mutes_the_client_after_the_request():
    """The bytes that are still to come are read and dropped; a drain waits for them, and not for the throttle."""
    asked = f.produce(1, size_bytes=900)
    reply = f.produce_reply(1)
    policy = Recorder(lambda _: Respond(reply[8:]), hear=lambda _: Throttle(60_000))
    wire = Wire(make_engine([policy])).client(asked[:300])
    assert wire.to_client == reply[:-4] + struct.pack(">i", 60_000)
    assert not wire.session.client.muted
    wire.drain()
    assert not wire.session.ended
    wire.client(asked[300:])
    assert wire.session.ended
    assert wire.to_broker == b""
    wire.release()
    assert wire.held_bytes == 0


def test_two_throttles_are_one_mute_until_the_later_deadline():
    """There is one timer; the throttles of a request and of its reply are not added up."""
    policy = Quiet(300)
    other = Recorder(hear=lambda _: Throttle(500))
    wire = Wire(make_engine([policy, other])).client(f.beat(1) + f.beat(2))
    wire.advance(100)
    wire.broker(f.beat_reply(1))
    assert wire.to_client == f.beat_reply(1, 500)
    assert wire.engine.timers.next_ms() == 300
    wire.advance(200)
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.engine.timers.next_ms() == 600
    wire.advance(299)
    assert wire.to_broker == f.beat(1)
    wire.advance(1)
    assert wire.to_broker == f.beat(1) + f.beat(2)


def test_a_throttle_over_the_fields_maximum_is_cut_in_the_reply_only():
    """The client is muted for the whole time."""
    wire = throttled(KINDS["heartbeat-v1"], ms=2**40).broker(f.beat_reply(1))
    assert wire.to_client == f.beat_reply(1, 2**31 - 1)
    assert wire.session.throttle.until_ms == 2**40


def test_a_throttled_client_is_drained_without_waiting():
    """Requests in flight are answered; unread requests of the client are not read."""
    wire = throttled(KINDS["heartbeat-v1"])
    wire.drain()
    assert not wire.session.ended
    wire.broker(f.beat_reply(1))
    assert wire.session.ended
    assert wire.to_client == f.beat_reply(1, 500)
    wire.release()
    assert wire.held_bytes == 0


def test_frames_that_wait_for_a_turn_wait_for_the_end_of_a_mute_too():
    """A reply throttles while part of a read is left for the next turn: the frames in it are not handled."""
    policy = Recorder(hear=lambda _: Throttle(500), apis={f.HEARTBEAT})
    wire = Wire(make_engine([policy]))
    odd, size = [], 0
    while size <= TURN_LABOUR_BYTES:
        odd.append(f.heartbeat(len(odd), client_id=f"client-{len(odd)}"))
        size += len(odd[-1])
    usual = [f.heartbeat(n, client_id=f"client-{len(odd) - 1}") for n in range(10_000, 10_050)]
    stream = b"".join(odd + usual)
    buf = bytearray(stream)
    assert wire.session.from_client(buf, 0, len(buf), 0) == ATTENTION
    assert wire.session.paced
    wire.settle()
    sent = wire.to_broker
    wire.broker(f.heartbeat_reply(0))
    assert wire.session.client.muted == Mute.THROTTLED
    assert wire.to_broker == sent
    wire.advance(500)
    assert wire.to_broker == stream


@pytest.mark.parametrize("chunk", [5, 1000])
def test_a_request_of_sluices_own_is_sent_while_the_client_is_muted(chunk):
    """It is not a request of the client."""
    wire = throttled(KINDS["heartbeat-v1"])
    answers: list[bytes | None] = []
    inquire(wire.session, f.heartbeat(77), 77, answers.append)
    wire.settle()
    assert wire.to_broker == f.beat(1) + f.heartbeat(77)
    wire.broker(f.beat_reply(1) + f.heartbeat_reply(77), chunk)
    assert answers == [f.heartbeat_reply(77)]
    assert wire.to_client == f.beat_reply(1, 500)
    wire.advance(500)
    assert wire.to_broker == f.beat(1) + f.heartbeat(77) + f.beat(2)
    wire.broker(f.beat_reply(2))
    assert_usual_again(wire)
