"""A drain does not wait for long polls: each gets an empty reply."""

import pytest

from policies.api import Outcome
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply
from tests.support.messages.waiting import FETCH_MS, WAIT_MS, empty, ids
from wire.api_keys import ApiKey


def test_a_drain_answers_each_fetch_that_waits_at_once():
    """Pipelined fetches too; they are not counted as expired."""
    policy = Recorder()
    wire = Wire(make_engine([policy])).client(fetch(1) + fetch(2))
    wire.drain()
    assert wire.to_client == empty(1) + empty(2)
    assert wire.session.reason is CloseReason.DRAINED
    assert wire.session.ended
    assert wire.engine.expired.fetch == 0
    assert policy.completed == [(1, Outcome.ANSWERED), (2, Outcome.ANSWERED)]


def test_a_drain_waits_for_replies_that_only_the_broker_can_give():
    """Later fetches are answered after the Heartbeat; a Produce waits until its deadline."""
    wire = Wire().client(f.beat(1) + fetch(2) + f.produce(3) + fetch(4))
    wire.drain()
    assert wire.to_client == b""
    wire.broker(f.beat_reply(1))
    assert wire.to_client == f.beat_reply(1) + empty(2)
    assert not wire.session.ended
    wire.broker(fetch_reply(2))
    wire.advance(WAIT_MS)
    assert ids(wire.to_client) == [1, 2, 3, 4]
    assert wire.session.ended
    wire.release()
    assert wire.held_bytes == 0


@pytest.mark.parametrize(
    "asked", [f.produce(1, acks=1), fetch(1, min_bytes=0)], ids=["produce", "fetch"]
)
def test_a_drain_awaits_the_reply_to_a_produce_or_a_fetch_that_does_not_wait(asked):
    """Its client gets what the broker says: without it a producer would write its records again."""
    wire = Wire().client(asked)
    wire.drain()
    assert not wire.session.ended
    wire.broker(f.produce_reply(1))
    assert wire.to_client == f.produce_reply(1)
    assert wire.session.ended


def test_a_drain_awaits_the_reply_to_an_administrative_request():
    """Cut off, its client would ask again for a topic that exists by then."""
    wire = Wire().client(f.request(ApiKey.CREATE_TOPICS, 4, 1))
    wire.drain()
    assert not wire.session.ended
    wire.broker(f.reply(1))
    assert wire.to_client == f.reply(1)
    assert wire.session.ended


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_drain_does_not_await_the_others_of_a_group(key):
    """There is no telling when they come; the client joins again through another proxy."""
    wire = Wire().client(f.request(key, 3, 1))
    wire.drain()
    assert wire.session.ended
    assert wire.session.reason is CloseReason.DRAINED


def test_a_drain_lets_a_reply_that_has_begun_finish():
    """The client gets the broker's reply whole, and only once."""
    wire = Wire().client(fetch(1) + fetch(2)).broker(fetch_reply(1)[:40])
    wire.drain()
    assert wire.to_client == fetch_reply(1)[:40]
    wire.broker(fetch_reply(1)[40:])
    assert wire.to_client == fetch_reply(1) + empty(2)
    assert wire.session.ended


def test_a_drain_finishes_the_fetch_that_is_being_sent():
    """The client sends the rest of it; then it is answered."""
    wire = Wire().client(fetch(1)[:40])
    wire.drain()
    assert not wire.session.ended
    wire.client(fetch(1)[40:])
    assert wire.to_client == empty(1)
    assert wire.session.ended


def test_a_drain_answers_the_fetch_of_a_half_closed_client():
    """Then the session ends."""
    wire = Wire().client(fetch(1))
    wire.session.client_gone(wire.now_ms)
    wire.drain()
    assert wire.to_client == empty(1)
    assert wire.session.ended


def test_a_drain_does_not_wait_for_a_late_reply():
    """The session ends although the broker still owes the reply of an expired fetch."""
    wire = Wire().client(fetch(1))
    wire.advance(FETCH_MS)
    wire.drain()
    assert wire.to_client == empty(1)
    assert wire.session.ended
