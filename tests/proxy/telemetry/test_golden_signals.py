"""Golden signals: errors by client, and bytes, errors and failed dials by broker."""

from policies.api import Outcome, Peer
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.stats.request_trace import RequestTrace
from proxy.telemetry.golden_signals import MAX_KEYS, SWEEP_EVERY, ByteRates, GoldenSignals
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.processes.admin_room import roomy


def trace(outcome: Outcome, client_id: str = "c", node: int | None = 1) -> RequestTrace:
    made = RequestTrace(0)
    made.peer = Peer(1, "h", 1, node, user="alice", client_id=client_id)
    made.outcome = outcome
    return made


def attached(engine: Engine | None = None) -> GoldenSignals:
    signals = GoldenSignals()
    signals.attach(engine or make_engine())
    return signals


def test_unanswered_requests_are_errors_of_the_broker_and_of_the_client():
    """A request that the broker or a policy answered is not an error."""
    signals = attached()
    for outcome in Outcome:
        signals.on_trace(trace(outcome))
    assert signals.errors_of("alice", "c") == signals.node_errors[1] == 2
    assert signals.errors_in_second == 2
    assert signals.errors_of("alice", "d") == 0
    signals.on_second(0, ())
    assert signals.errors_in_second == 0
    assert signals.errors_of("alice", "c") == 2


def test_clients_connected_before_the_start_are_counted_from_then_on():
    """The dashboard may be opened while the proxy runs; the sums by API are complete."""
    wire = Wire(node_id=1).client(f.heartbeat(1, "early")).broker(f.heartbeat_reply(1))
    meters = wire.engine.meters
    assert meters.of("ANONYMOUS", "early") == ()
    GoldenSignals().attach(wire.engine)
    wire.client(f.heartbeat(2, "early")).broker(f.heartbeat_reply(2))
    (own,) = meters.of("ANONYMOUS", "early")
    assert (own.replied, own.node) == (1, 1)
    assert [each.replied for each in meters.by_api()] == [2]


def test_the_number_of_clients_with_errors_is_bounded():
    """The client that failed longest ago is dropped."""
    signals = attached()
    for n in range(MAX_KEYS):
        signals.on_trace(trace(Outcome.EXPIRED, f"c{n}"))
    signals.on_trace(trace(Outcome.EXPIRED, "c0"))
    signals.on_trace(trace(Outcome.EXPIRED, "one more"))
    assert signals.errors_of("alice", "c0") == 2
    assert signals.errors_of("alice", "c1") == 0
    assert signals.errors_of("alice", "c2") == 1


def test_failed_dials_and_broken_connections_are_counted_apart():
    """A client that disconnects is neither."""
    dials = {
        CloseReason.UPSTREAM_REFUSED,
        CloseReason.UPSTREAM_DIAL_TIMEOUT,
        CloseReason.UPSTREAM_AUTHENTICATION_FAILED,
    }
    losses = {
        CloseReason.BROKER_RESET,
        CloseReason.BROKER_PROTOCOL,
        CloseReason.UPSTREAM_REQUEST_TIMEOUT,
    }
    for reason in CloseReason:
        signals = attached()
        signals.on_session_closed(Peer(1, "h", 1, 2), reason, "")
        counted = signals.dial_failures[2], signals.lost[2]
        assert counted == (reason in dials, reason in losses), reason


def test_bytes_are_counted_by_broker_as_they_are_read():
    """They are bytes from clients and from the broker, in the second that ended."""
    with roomy() as room:
        client, broker, _ = room.link(2)
        request, reply = f.heartbeat(1), f.heartbeat_reply(1)
        signals = GoldenSignals()  # it gets no other seconds than those of this test
        signals.attach(room.engine)
        signals.on_second(1000, ())
        client.sendall(request)
        room.event_loop.step(0.05)
        broker.sendall(reply)
        room.event_loop.step(0.05)
        signals.on_second(3000, ())
        assert signals.flows[2] == ByteRates(len(request) / 2, len(reply) / 2)
        signals.on_second(4000, ())
        assert signals.flows[2] == ByteRates(0.0, 0.0)


def test_meters_of_disconnected_clients_are_retired_and_stay_in_the_sums():
    """They are retired later, because a reply may still be in flight."""
    engine = make_engine()
    signals = attached(engine)
    for n in range(5):
        engine.meters.find(12, "Heartbeat", "alice", f"c{n}", 1).upstream[7] += 1
    engine.usage.join("alice", "c0", 0)
    kept = []
    for _ in range(3):
        for second in range(SWEEP_EVERY):
            signals.on_second(second * 1000, ())
        kept.append(len(engine.meters.each()))
    assert kept == [5, 1, 1]
    assert [each.replied for each in engine.meters.by_api()] == [5]
