"""The question that is asked once the client of an unconfirmed session has authenticated."""

import pytest

from proxy.core.errors import CloseReason
from proxy.core.retirements import PATIENCE_MS
from tests.support.core.routes import BOOTSTRAP, HOME, led, pass_time, tell
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.messages import sasl


def authenticate(wire: Wire) -> Wire:
    """Let the client log in by PLAIN, and send a Produce at once."""
    wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    wire.client(sasl.authenticate(2, sasl.plain("alice", "secret")))
    wire.to_broker = b""
    wire.broker(sasl.authenticate_reply(2))
    return wire.client(f.produce(3))


def answer(*brokers: tuple[int, str, int]) -> bytes:
    return f.metadata_reply(0, list(brokers))


def test_the_broker_is_asked_before_anything_of_the_client_is_forwarded(engine):
    """The client has its answer to SASL; its Produce waits for ours."""
    wire = authenticate(led(engine, BOOTSTRAP, confirmed=False))
    (question,) = f.whole_frames(wire.to_broker)
    assert question[4:6] == f.METADATA.to_bytes(2, "big")
    assert wire.to_client.endswith(sasl.authenticate_reply(2))


def test_a_client_at_the_right_broker_stays(engine):
    """The bootstrap broker may be the node itself; the answer never reaches the client."""
    wire = authenticate(led(engine, BOOTSTRAP, confirmed=False))
    heard = wire.to_client
    wire.broker(answer((1, *BOOTSTRAP)))
    wire.settle()
    wire.proceed()
    assert wire.to_broker.endswith(f.produce(3))
    assert wire.to_client == heard
    wire.broker(f.produce_reply(3))
    assert wire.to_client == heard + f.produce_reply(3)
    assert engine.routes.maybe_unconfirmed(wire.session) is None


@pytest.mark.parametrize("chunk", [1, 9, 1 << 16])
def test_a_client_at_the_wrong_broker_ends_and_its_produce_is_not_forwarded(engine, chunk):
    """A broker that does not lead the partition would refuse it, and a client without retries loses it."""
    wire = authenticate(led(engine, BOOTSTRAP, confirmed=False))
    asked = wire.to_broker
    wire.broker(answer((1, *HOME)), chunk)
    pass_time(wire, 20)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.ROUTE_CHANGED
    assert wire.to_broker == asked
    wire.release()
    assert wire.held_bytes == 0


def test_a_client_of_a_node_that_no_broker_knows_is_told_so(engine):
    """As it is where Sluice can ask by itself."""
    wire = authenticate(led(engine, BOOTSTRAP, confirmed=False))
    wire.broker(answer((0, *HOME)))
    assert wire.session.ended
    assert wire.session.reason is CloseReason.UNKNOWN_NODE
    assert wire.session.detail == "no broker has the id 1"


def test_one_answer_leads_all_sessions_that_wait_elsewhere(engine):
    """Also one that has not authenticated yet: it ends between two of its requests."""
    asking, other = (led(engine, BOOTSTRAP, confirmed=False) for _ in range(2))
    authenticate(asking).broker(answer((1, *HOME)))
    pass_time(asking, 20)
    assert asking.session.ended
    assert other.session.reason is CloseReason.ROUTE_CHANGED


def test_a_client_whose_node_moves_to_its_broker_before_it_ends_stays(engine):
    """It was led elsewhere when it asked, and is not any more: else it would be muted, and never end."""
    wire = authenticate(led(engine, BOOTSTRAP, confirmed=False))
    wire.broker(answer((1, *HOME)))
    tell(engine, BOOTSTRAP)
    pass_time(wire, 3_000)
    wire.settle()
    wire.proceed()
    assert not wire.session.ended
    assert wire.to_broker.endswith(f.produce(3))
    assert engine.routes.maybe_unconfirmed(wire.session) is None


def test_a_refused_client_is_not_asked_for(engine):
    """It may try again; only an authenticated connection can ask. Nor is one whose node's own address was dialled."""
    wire = led(engine, BOOTSTRAP, confirmed=False)
    wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    wire.client(sasl.authenticate(2, sasl.plain("alice", "wrong")))
    before = wire.to_broker
    wire.broker(sasl.authenticate_reply(2, error_code=58))
    assert wire.to_broker == before
    assert not wire.session.ended
    assert authenticate(led(engine, HOME)).to_broker == f.produce(3)


def test_a_lying_answer_ends_its_own_session_only(engine):
    """A malformed answer is a fault of that broker."""
    liar, honest = (led(engine, BOOTSTRAP, confirmed=False) for _ in range(2))
    authenticate(liar).broker(f.reply(0, b"\x00\x00\xff\xff" * 3))
    assert liar.session.reason is CloseReason.BROKER_PROTOCOL
    assert not honest.session.ended


def test_a_mechanism_whose_end_cannot_be_seen_is_left_alone(engine):
    """A question amid its tokens would break it; its session ends once any other has learnt the address."""
    wire = led(engine, BOOTSTRAP, confirmed=False)
    wire.client(sasl.handshake(1, "GSSAPI")).broker(sasl.handshake_reply(1))
    wire.client(sasl.authenticate(2, b"token"))
    before = wire.to_broker
    wire.broker(sasl.authenticate_reply(2, b"more"))
    assert wire.to_broker == before
    tell(engine, HOME)
    pass_time(wire, PATIENCE_MS)
    assert wire.session.reason is CloseReason.ROUTE_CHANGED
