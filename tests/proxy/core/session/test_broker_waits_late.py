"""After a request expired: its late reply, the requests after it, and every end of the session but a drain.

`test_differential.py` has mixtures of requests and of Sluice's and the broker's replies, under any chunking.
"""

import pytest

from policies.api import FORWARD, Hold, Outcome
from proxy.core.errors import CloseReason
from proxy.core.session.broker_waits import MAX_ANSWERS
from proxy.core.session.exchange import SwallowedExchange
from proxy.core.session.questions import inquire
from tests.support.core.policies import Recorder
from tests.support.core.session_state import is_diverted, is_patient
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import KINDS, OURS, REAL, fetch, fetch_reply
from tests.support.messages.waiting import FETCH_MS, WAIT_MS, asked, empty, ids, refused


def expired(data: bytes = b"", **options: int) -> Wire:
    """Return a session whose fetch 1 expired; the client had sent `data` right after it."""
    wire = Wire(make_engine(**options)).client(fetch(1) + data)
    wire.advance(FETCH_MS)
    assert wire.to_client.startswith(empty(1))
    return wire


def usual(wire: Wire) -> None:
    """Assert that nothing is held and the fast loops serve the session, a patient one after the broker's next reply."""
    assert wire.session.queue.diverted == is_patient(wire.session)
    assert not is_diverted(wire.session)
    assert not wire.session.queue
    assert wire.held_bytes == 0


# -- the late reply -----------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [0, 10, 300_000])
def test_a_late_reply_of_any_size_takes_no_memory(size_bytes):
    """It is dropped as it comes, however large."""
    wire = expired()
    reply = fetch_reply(1, size_bytes=size_bytes)
    for at in range(0, len(reply), 50_000):
        wire.broker(reply[at : at + 50_000])
        assert wire.held_bytes == 0
    assert wire.to_client == empty(1)
    usual(wire)


def test_a_request_after_an_expired_one_gets_the_brokers_reply():
    """Even with the same correlation id: replies are paired with requests by their order."""
    wire = expired()
    wire.client(fetch(1)).broker(fetch_reply(1)).broker(fetch_reply(1, 5))
    assert wire.to_client == empty(1) + fetch_reply(1, 5)
    usual(wire)


def test_a_late_reply_is_not_parsed():
    """A malformed one does no harm, and the addresses in the next reply are still rewritten."""
    topics = [(b"t", [(0, b"r" * 30)])]
    wire = Wire().client(asked(10, topics) + KINDS["metadata-v3"].ask(8))
    wire.advance(WAIT_MS)
    nonsense = f.reply(7, b"\xff" * 40)
    wire.broker(nonsense + f.metadata3_reply(8, REAL), 13)
    mine, metadata = f.split(wire.to_client)
    assert refused(10, mine) == [(b"t", [0])]
    assert metadata == f.metadata3_reply(8, OURS)
    usual(wire)


@pytest.mark.parametrize(
    ("asked", "replies"),
    [(f.beat(2), f.beat_reply(2)), (b"", fetch_reply(1) + fetch_reply(1))],
    ids=["another id", "a second reply"],
)
def test_another_reply_than_the_late_one_ends_both_sides(asked, replies):
    """Replies and requests can no longer be paired."""
    wire = expired(asked).broker(replies)
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.to_client == empty(1)
    wire.release()
    assert wire.held_bytes == 0


# -- at the deadline ----------------------------------------------------------------------------


def test_a_reply_at_the_very_deadline_is_in_time_if_it_is_read_first():
    """The timer then finds no request to answer."""
    wire = Wire().client(fetch(1))
    wire.engine.now_ms += FETCH_MS
    wire.broker(fetch_reply(1))
    wire.advance(0)
    wire.advance(1)
    assert wire.to_client == fetch_reply(1)
    usual(wire)
    assert wire.engine.expired.fetch == 0


@pytest.mark.parametrize("there", [8, 9, 50, -1])
def test_a_request_whose_reply_has_begun_does_not_expire(there):
    """However slowly the rest of the reply comes; the next request waits for its end."""
    wire = Wire().client(fetch(1) + fetch(2)).broker(fetch_reply(1)[:there])
    for _ in range(10):
        wire.advance(FETCH_MS)
    assert wire.to_client == fetch_reply(1)[:there]
    wire.broker(fetch_reply(1)[there:])
    wire.advance(10_000)
    assert wire.to_client == fetch_reply(1) + empty(2)


def test_a_reply_without_its_correlation_id_has_not_begun():
    """Its request expires at the deadline, and the whole reply is swallowed."""
    wire = Wire().client(fetch(1) + f.beat(2)).broker(fetch_reply(1)[:7])
    wire.advance(FETCH_MS)
    wire.broker(fetch_reply(1)[7:] + f.beat_reply(2))
    assert wire.to_client == empty(1) + f.beat_reply(2)
    usual(wire)


def test_a_request_expires_while_the_reply_before_it_is_being_swallowed():
    """No byte of the swallowed reply reaches the client."""
    wire = expired(f.produce(2)).broker(fetch_reply(1)[:30])
    wire.advance(WAIT_MS)
    assert ids(wire.to_client) == [1, 2]
    wire.broker(fetch_reply(1)[30:] + f.produce_reply(2)[:3])
    wire.broker(f.produce_reply(2)[3:])
    assert ids(wire.to_client) == [1, 2]
    usual(wire)


def test_an_unanswered_inquiry_does_not_delay_the_deadline_of_a_fetch():
    """The inquiry is Sluice's own request; its reply is not due to the client."""
    answers: list[bytes | None] = []
    wire = Wire().client(fetch(1)).broker(fetch_reply(1))
    inquire(wire.session, f.beat(77), 77, answers.append)
    wire.client(fetch(2))
    wire.advance(FETCH_MS)
    assert wire.to_client == fetch_reply(1) + empty(2)
    wire.broker(f.beat_reply(77) + fetch_reply(2))
    assert answers == [f.beat_reply(77)]
    usual(wire)


def test_a_held_fetch_has_its_whole_wait_at_the_broker():
    """Even when a policy held it for longer than it would wait."""
    policy = Recorder(lambda _: Hold(FETCH_MS * 2, "key", FORWARD))
    wire = Wire(make_engine([policy])).client(fetch(1))
    wire.advance(FETCH_MS * 2)
    assert wire.to_broker == fetch(1)
    wire.advance(FETCH_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert wire.to_client == empty(1)


def test_thousands_of_fetches_that_expire_together_are_answered_in_turns():
    """At most MAX_ANSWERS in a turn, so that other sessions are served in between."""
    count = 4_000
    wire = Wire().client(b"".join(fetch(n) for n in range(count)))
    wire.advance(FETCH_MS)
    answered = MAX_ANSWERS
    while answered < count:
        assert wire.engine.expired.fetch == answered
        assert wire.engine.timers.next_ms() == wire.now_ms + 1
        wire.advance(1)
        answered = min(answered + MAX_ANSWERS, count)
    assert ids(wire.to_client) == list(range(count))
    wire.broker(b"".join(fetch_reply(n, size_bytes=4) for n in range(count)))
    usual(wire)


# -- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", f.beat(2), fetch(2), f.produce(2)])
def test_a_broker_that_closes_instead_of_replying_closes_the_client(data):
    """The reply that Sluice made is delivered, and every request completes once."""
    policy = Recorder()
    wire = Wire(make_engine([policy])).client(fetch(1))
    wire.advance(FETCH_MS)
    wire.client(data)
    wire.session.broker_gone(CloseReason.BROKER_RESET, wire.now_ms)
    wire.settle()
    wire.release()
    assert wire.to_client == empty(1)
    assert policy.completed[0] == (1, Outcome.EXPIRED)
    assert policy.completed[1:] == [(n, Outcome.DISCONNECTED) for n in policy.asked[1:]]
    assert wire.held_bytes == 0
    assert wire.engine.timers.size == 0


def test_the_session_of_a_half_closed_client_ends_with_its_last_reply():
    """It does not wait for the broker's late reply."""
    wire = Wire().client(fetch(1))
    wire.session.client_gone(wire.now_ms)
    assert not wire.session.ended
    wire.advance(FETCH_MS)
    assert wire.to_client == empty(1)
    assert wire.session.ended
    wire.release()
    assert wire.held_bytes == 0


def test_a_lost_client_leaves_no_timer():
    """Its fetch completes once, whether it has expired or not."""
    for elapsed_ms, outcome in ((0, Outcome.DISCONNECTED), (FETCH_MS, Outcome.EXPIRED)):
        policy = Recorder()
        wire = Wire(make_engine([policy])).client(fetch(1))
        wire.advance(elapsed_ms)
        wire.session.client_lost(wire.now_ms)
        wire.release()
        wire.advance(10**6)
        assert policy.completed == [(1, outcome)]
        assert wire.engine.timers.size == 0


def test_a_broker_that_never_sends_the_late_reply_is_given_up():
    """The request timeout runs from the time when the request expired."""
    wire = expired(request_timeout_ms=1_000)
    wire.advance(999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert wire.session.detail == "a request that was answered here unanswered for 1000 ms"
    assert wire.to_client == empty(1)


def test_each_byte_of_a_late_reply_restarts_the_request_timeout():
    """As for any other reply."""
    wire = expired(request_timeout_ms=1_000)
    for at in range(20):
        wire.broker(fetch_reply(1)[at : at + 1])
        wire.advance(900)
    assert not wire.session.ended
    wire.broker(fetch_reply(1)[20:])
    usual(wire)


def test_no_request_expires_after_the_end():
    """A timer that fires late makes no reply, and none is swallowed."""
    wire = Wire().client(fetch(1))
    wire.session.end(CloseReason.INTERNAL, "", wire.now_ms)
    wire.advance(FETCH_MS * 2)
    assert wire.to_client == b""
    assert not any(isinstance(each, SwallowedExchange) for each in wire.session.queue)
