"""How a session ends: what is in flight is answered if anybody can, and nothing is left behind."""

from __future__ import annotations

import pytest

from policies.api import FORWARD, Need, Outcome, Reject, Throttle
from policies.chain import PolicyFault
from proxy.core.errors import BrokerProtocolError, ClientProtocolError, CloseReason
from proxy.core.protocol_sniffer import WANTS_SASL, WANTS_TLS
from proxy.core.session.channel import Mute
from tests.support import frames as f
from tests.support import sasl
from tests.support.policies import Recorder, Silent
from tests.support.sessions import Wire, make_engine
from wire.errors import ErrorCode, WireError

NEEDS = pytest.mark.parametrize("needs", list(Need), ids=lambda need: need.name)


# -- a side goes away -----------------------------------------------------------------------------


def test_a_client_that_half_closes_gets_its_replies_first():
    """EOF from the client is not the end of its replies."""
    wire = Wire().client(f.heartbeat(1) + f.heartbeat(2))
    wire.session.client_gone(0)
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(1))
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(2))
    assert wire.session.ended
    assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)
    assert wire.session.reason is CloseReason.CLIENT_CLOSED


def test_a_client_that_dies_inside_a_request_is_not_waited_for():
    """No reply can come to a request that will never be whole."""
    watcher = Silent()
    wire = Wire(make_engine([watcher])).client(f.heartbeat(1) + f.produce(2)[:80])
    wire.session.client_gone(0)
    assert watcher.completed == [(2, Outcome.DISCONNECTED)]
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert watcher.completed[1:] == [(1, Outcome.REPLIED)]


def test_a_broker_that_goes_completes_everything_in_flight_as_disconnected():
    """Each exactly once."""
    watcher = Silent()
    wire = Wire(make_engine([watcher])).client(f.heartbeat(1) + f.heartbeat(2))
    wire.broker(f.heartbeat_reply(1))
    wire.session.broker_gone(CloseReason.BROKER_RESET, 0)
    wire.release()
    assert watcher.completed == [(1, Outcome.REPLIED), (2, Outcome.DISCONNECTED)]
    assert watcher.gone == [wire.session.peer.session_id]
    assert wire.watcher.closed == [(CloseReason.BROKER_RESET, "")]


def test_drain_lets_the_passing_request_finish_and_answers_what_is_in_flight():
    """No new request is taken, none is cut."""
    asked = f.produce(2, size_bytes=500)
    wire = Wire().client(f.heartbeat(1) + asked[:100])
    wire.session.drain()
    wire.settle()
    assert not wire.session.client.muted
    wire.client(asked[100:] + f.heartbeat(3))
    assert wire.session.client.muted & Mute.ENDING
    assert wire.to_broker == f.heartbeat(1) + asked
    wire.broker(f.heartbeat_reply(1) + f.produce_reply(2))
    assert wire.session.ended
    assert wire.session.reason is CloseReason.DRAINED
    assert wire.to_client == f.heartbeat_reply(1) + f.produce_reply(2)
    wire.release()
    assert wire.held_bytes == 0


def test_drain_of_an_idle_session_ends_it_at_once():
    """Nothing is in flight."""
    wire = Wire().client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.session.drain()
    assert wire.session.ended


@NEEDS
@pytest.mark.parametrize("in_flight", [0, 1])
def test_a_client_that_dies_inside_a_request_leaves_nothing_whatever_was_done_with_it(
    needs, in_flight
):
    """Streamed, walked or kept whole: who was asked about it hears of its end, once."""
    policy = Silent(needs=needs)
    before = b"".join(f.heartbeat(n) for n in range(in_flight))
    wire = Wire(make_engine([policy])).client(before + f.produce(9, size_bytes=900)[:500])
    wire.session.client_gone(0)
    wire.settle()
    if in_flight:
        assert not wire.session.ended
        wire.broker(f.heartbeat_reply(0))
    assert wire.session.ended
    wire.release()
    assert sorted(policy.completed) == [
        *((n + 1, Outcome.REPLIED) for n in range(in_flight)),
        *((n, Outcome.DISCONNECTED) for n in policy.asked[in_flight:]),
    ]
    assert wire.held_bytes == 0


def test_a_client_that_dies_inside_a_request_without_reply_still_gets_the_others_before_it():
    """Nobody else's reply is taken for the one that will not come."""
    wire = Wire().client(f.heartbeat(1) + f.produce(2, acks=0)[:70])
    wire.session.client_gone(0)
    wire.broker(f.heartbeat_reply(1))
    assert wire.to_client == f.heartbeat_reply(1)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_CLOSED


@pytest.mark.parametrize("size", [5, 12, 24])
def test_a_client_that_dies_inside_a_sasl_frame_ends(size):
    """It is kept whole, whatever the policies want."""
    wire = Wire().client(sasl.handshake(1, "PLAIN")[:size])
    wire.session.client_gone(0)
    assert wire.session.ended
    wire.release()
    assert wire.held_bytes == 0


def test_a_client_that_dies_inside_a_refused_request_ends():
    """What was kept of it for the error reply's sake is given back."""
    policy = Recorder(lambda _: Reject(ErrorCode.POLICY_VIOLATION))
    wire = Wire(make_engine([policy])).client(f.heartbeat(1, pad=500)[:100])
    wire.session.client_gone(0)
    assert wire.session.ended
    assert wire.held_bytes == 0
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    wire.release()
    assert policy.completed == [(1, Outcome.DISCONNECTED)]


def test_a_client_that_resets_is_owed_nothing():
    """What was due to it is thrown away; its requests end."""
    policy = Silent()
    wire = Wire(make_engine([policy])).client(f.heartbeat(1))
    wire.session.client.put(b"unsent")
    wire.session.client_lost(0)
    assert wire.session.reason is CloseReason.CLIENT_RESET
    assert wire.held_bytes == 0
    assert policy.completed == [(1, Outcome.DISCONNECTED)]


# -- a bootstrap broker that hangs up at once -----------------------------------------------------

TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
NO_APIS = bytes(6)  # no error, and none listed


def bootstrap(node_id: int | None = None) -> Wire:
    """A session at a broker that was dialled as a bootstrap broker."""
    wire = Wire(make_engine(now_ms=1000), node_id)
    if node_id is None:
        wire.session.node = wire.engine.topology.nodes.health("10.0.0.1:9093")
    return wire


@pytest.mark.parametrize("last_words", [b"", TLS_ALERT])
@pytest.mark.parametrize("reason", [CloseReason.BROKER_CLOSED, CloseReason.BROKER_RESET])
def test_a_bootstrap_that_closes_before_its_first_answer_is_told_as_wanting_tls(last_words, reason):
    """A TLS listener takes a plain request for nonsense, and says no more than an alert."""
    wire = bootstrap().client(f.request(f.API_VERSIONS, 0, 1))
    if last_words:
        wire.broker(last_words)
    wire.session.broker_gone(reason, 1000)
    assert wire.watcher.hung_up == [("10.0.0.1:9093", WANTS_TLS)]


def test_a_bootstrap_that_answers_api_versions_only_is_told_as_wanting_sasl():
    """As long as no broker has named a node: afterwards it is a broker that went down."""
    wire = (
        bootstrap()
        .client(f.request(f.API_VERSIONS, 0, 1))
        .broker(f.reply(1, NO_APIS))
        .client(f.metadata_request(2))
    )
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    assert wire.watcher.hung_up == [("10.0.0.1:9093", WANTS_SASL)]
    wire.engine.topology.learn({1: (b"kafka-1", 9092)})
    wire = Wire(wire.engine).client(f.request(f.API_VERSIONS, 0, 1)).broker(f.reply(1, NO_APIS))
    wire.client(f.metadata_request(2))
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    assert len(wire.watcher.hung_up) == 1


def test_a_broker_that_closes_while_it_owes_nothing_is_not_told():
    """Nor is one behind a node's port, nor one whose client is on its way out."""
    idle = bootstrap()
    idle.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    node = bootstrap(1).client(f.heartbeat(1))
    node.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    leaving = bootstrap().client(f.heartbeat(1))
    leaving.session.client_gone(1000)
    leaving.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    for wire in (idle, node, leaving):
        assert wire.session.ended
        assert wire.watcher.hung_up == []


def test_what_the_broker_did_reply_is_still_delivered_when_it_goes():
    """Its own unsent bytes are nobody's any more."""
    wire = Wire().client(f.heartbeat(1))
    wire.session.client.put(b"reply")
    wire.session.broker.put(b"request")
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 0)
    wire.settle()
    assert wire.to_client == b"reply"
    assert wire.to_broker == f.heartbeat(1)


# -- the proxy ends it --------------------------------------------------------------------------


def test_after_the_end_was_asked_for_no_request_is_taken():
    """And the first reason stands, with its words."""
    wire = Wire().client(f.heartbeat(1))
    wire.session.end_after_replies(CloseReason.POLICY, "refused")
    wire.session.end_after_replies(CloseReason.DRAINED, "later")
    wire.client(f.heartbeat(2))
    assert wire.to_broker == f.heartbeat(1)
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (CloseReason.POLICY, "refused")


@pytest.mark.parametrize("verdict", [FORWARD, Throttle(500)], ids=["forward", "throttle"])
def test_a_drain_finishes_a_request_that_is_being_kept_whole(verdict):
    """No request is cut, and one that is throttled just now does not keep the drain."""
    asked = f.heartbeat(1, pad=300)
    policy = Silent(lambda _: verdict, needs=Need.BODY)
    wire = Wire(make_engine([policy])).client(asked[:100])
    wire.drain()
    assert not wire.session.ended
    wire.client(asked[100:] + f.heartbeat(2))
    assert wire.to_broker == asked
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert policy.completed == [(1, Outcome.REPLIED)]
    wire.release()
    assert wire.held_bytes == 0


def test_a_drain_does_not_wait_for_what_stands_behind_a_token():
    """It waits for the token's own reply, as for any other in flight."""
    wire = Wire().client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    wire.client(sasl.authenticate(2, sasl.plain("alice", "x")) + f.heartbeat(3))
    wire.drain()
    assert not wire.session.ended
    wire.broker(sasl.authenticate_reply(2))
    assert wire.session.ended
    wire.release()
    assert wire.held_bytes == 0


def test_every_kind_of_exchange_completes_when_the_end_comes():
    """The broker's, our own questions, and replies made here that waited for their turn."""
    policy = Silent(lambda r: Reject(1) if r.exchange_id == 2 else FORWARD, apis={f.HEARTBEAT})
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + f.heartbeat(2))
    answers: list[bytes | None] = []
    wire.session.inquire(f.heartbeat(77), 77, answers.append)
    wire.session.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, "", 0)
    wire.session.end(CloseReason.INTERNAL, "", 0)
    assert policy.completed == [(1, Outcome.DISCONNECTED), (2, Outcome.DISCONNECTED)]
    assert answers == [None]
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    wire.settle()
    wire.release()
    assert wire.held_bytes == 0


def test_a_question_that_waited_for_a_frame_boundary_hears_of_the_end():
    """None stands for no reply."""
    answers: list[bytes | None] = []
    wire = Wire().client(f.produce(1)[:80])
    wire.session.inquire(f.heartbeat(77), 77, answers.append)
    wire.session.client_lost(0)
    wire.release()
    assert answers == [None]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ClientProtocolError("x"), CloseReason.CLIENT_PROTOCOL),
        (BrokerProtocolError("x"), CloseReason.BROKER_PROTOCOL),
        (PolicyFault("p0", "on_request"), CloseReason.POLICY_FAULT),
        (WireError("x"), CloseReason.BROKER_CLOSED),
        (ZeroDivisionError("x"), CloseReason.INTERNAL),
    ],
    ids=lambda each: getattr(each, "value", type(each).__name__),
)
def test_a_fault_says_whose_it_was_and_ends_its_own_session_only(fault, reason):
    """Only what nobody has foreseen is reported as our own."""
    wire = Wire()
    other = Wire(wire.engine)
    wire.session.fail(fault, CloseReason.BROKER_CLOSED)
    assert wire.session.ended
    assert wire.session.reason is reason
    assert wire.watcher.internal == ([fault] if reason is CloseReason.INTERNAL else [])
    assert not other.session.ending


def test_what_was_released_is_released():
    """Once, with everything given back; later events find nothing."""
    policy = Silent(needs=Need.BODY)
    wire = Wire(make_engine([policy], request_timeout_ms=1000))
    wire.client(f.heartbeat(1) + f.heartbeat(2)[:20])
    wire.session.client.put(b"unsent")
    wire.release()
    wire.release()
    assert wire.held_bytes == 0
    assert wire.engine.timers.next_ms() is None
    assert wire.session.plans.by_kind == {}
    assert policy.asked == [1]
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert policy.gone == [1]
