"""How a session ends: requests in flight are answered where possible, and everything is given back."""

import pytest

from policies.api import FORWARD, Need, Outcome, Reject, Throttle
from proxy.core.errors import CloseReason
from proxy.core.protocol_sniffer import WANTS_SASL, WANTS_TLS
from proxy.core.session.channel import Mute
from proxy.core.session.questions import inquire
from tests.support.core.holding import NEEDS
from tests.support.core.policies import Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from wire.errors import ErrorCode

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


@NEEDS
@pytest.mark.parametrize("in_flight", [0, 1])
@pytest.mark.parametrize(
    "verdict", [FORWARD, Reject(ErrorCode.POLICY_VIOLATION)], ids=["forward", "refuse"]
)
@pytest.mark.parametrize(
    "half",
    [
        f.produce(9, size_bytes=900)[:500],
        f.produce(9, acks=0)[:70],
        *(sasl.handshake(9, "PLAIN")[:size] for size in (5, 12, 24)),
    ],
    ids=len,
)
def test_a_client_that_dies_inside_a_request_leaves_nothing(needs, in_flight, verdict, half):
    """Streamed, walked, refused or kept whole; earlier replies come, and each policy hears of each end once."""
    policy = Silent(lambda r: verdict if r.exchange_id > in_flight else FORWARD, needs=needs)
    before = b"".join(f.heartbeat(n) for n in range(in_flight))
    wire = Wire(make_engine([policy])).client(before + half)
    wire.session.client_gone(0)
    wire.settle()
    if in_flight:
        assert not wire.session.ended
        wire.broker(f.heartbeat_reply(0))
    assert wire.session.ended
    wire.release()
    assert wire.to_client == b"".join(f.heartbeat_reply(n) for n in range(in_flight))
    assert [n for n, _ in sorted(policy.completed)] == sorted(policy.asked)
    assert sum(outcome is Outcome.REPLIED for _, outcome in policy.completed) == in_flight
    assert wire.held_bytes == 0


def test_a_client_that_resets_gets_no_more_replies():
    """Its unsent bytes are dropped, and its requests complete."""
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
    """Return a session at a broker that was dialled as a bootstrap broker."""
    wire = Wire(make_engine(now_ms=1000), node_id)
    if node_id is None:
        wire.session.node = wire.engine.topology.nodes.health("10.0.0.1:9093")
    return wire


@pytest.mark.parametrize("last_words", [b"", TLS_ALERT])
@pytest.mark.parametrize("reason", [CloseReason.BROKER_CLOSED, CloseReason.BROKER_RESET])
def test_a_bootstrap_broker_that_closes_before_its_first_reply_is_reported_to_need_tls(
    last_words, reason
):
    """A TLS listener cannot read a plain request, and sends an alert at most."""
    wire = bootstrap().client(f.request(f.API_VERSIONS, 0, 1))
    if last_words:
        wire.broker(last_words)
    wire.session.broker_gone(reason, 1000)
    assert wire.watcher.hung_up == [("10.0.0.1:9093", WANTS_TLS)]


@pytest.mark.parametrize(
    "case", ["it owes nothing", "a node's port", "the client has closed", "custody"]
)
def test_no_other_broker_that_closes_is_reported(case):
    """It went down, had no reason to stay, or has authenticated Sluice already."""
    wire = bootstrap(1 if case == "a node's port" else None)
    wire.engine.has_custody = case == "custody"
    if case != "it owes nothing":
        wire.client(f.heartbeat(1))
    if case == "the client has closed":
        wire.session.client_gone(1000)
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    assert wire.session.ended
    assert wire.watcher.hung_up == []


def test_a_bootstrap_broker_that_answers_api_versions_only_is_reported_to_need_sasl():
    """Until a broker has named the nodes: afterwards it is a broker that went down."""
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


# -- the proxy ends it --------------------------------------------------------------------------


def test_an_ending_session_takes_no_request():
    """The first reason to end stays, with its detail."""
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
    """No request is cut, and a throttle on it does not delay the drain."""
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


def test_a_drain_does_not_wait_for_requests_after_a_sasl_token():
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
    """The broker's, Sluice's inquiries, and replies made by Sluice that waited for their turn."""
    policy = Silent(lambda r: Reject(1) if r.exchange_id == 2 else FORWARD, apis={f.HEARTBEAT})
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + f.heartbeat(2))
    answers: list[bytes | None] = []
    inquire(wire.session, f.heartbeat(77), 77, answers.append)
    wire.session.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, "", 0)
    wire.session.end(CloseReason.INTERNAL, "", 0)
    assert policy.completed == [(1, Outcome.DISCONNECTED), (2, Outcome.DISCONNECTED)]
    assert answers == [None]
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    wire.settle()
    wire.release()
    assert wire.held_bytes == 0


def test_an_inquiry_that_waits_for_a_frame_boundary_hears_of_the_end():
    """It gets None in place of a reply."""
    answers: list[bytes | None] = []
    wire = Wire().client(f.produce(1)[:80])
    inquire(wire.session, f.heartbeat(77), 77, answers.append)
    wire.session.client_lost(0)
    wire.release()
    assert answers == [None]


def test_a_session_is_released_once():
    """Bytes, timers and plans are given back; a second release does nothing, and is told to no policy or observer."""
    policy = Silent(needs=Need.BODY)
    wire = Wire(make_engine([policy], request_timeout_ms=1000))
    wire.client(f.heartbeat(1) + f.heartbeat(2)[:20])
    wire.session.client.put(b"unsent")
    wire.release()
    wire.release()
    assert wire.held_bytes == 0
    assert wire.engine.timers.next_ms() is None
    assert wire.session.plans.by_kind == {}
    assert wire.engine.sessions == set()
    assert wire.watcher.closed == [(CloseReason.CLIENT_CLOSED, "")]
    assert policy.asked == [1]
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert policy.gone == [1]
