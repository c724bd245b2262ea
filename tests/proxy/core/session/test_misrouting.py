"""A client that says which broker it means is sent back where it has come to another one (KIP-1242)."""

import pytest

from policies.api import FORWARD, Need, Reject, Throttle
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.golden import cases
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.schema import make_message

OURS, THEIRS = "our-cluster", "their-cluster"
V5 = api_of(ApiKey.API_VERSIONS, cases("apiversions")["apiversions-v5-pair"]["api_version"])
PASSED, WITHOUT, REBOOTSTRAP, INVALID = None, "", ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.INVALID_REQUEST  # fmt: skip


def asks(cluster_id: str | None, node_id: int) -> bytes:
    """An ApiVersions v5 of a client that means this broker."""
    values = {"cluster_id": cluster_id, "node_id": node_id, "client_software_name": "lib",
              "client_software_version": "1.0"}  # fmt: skip
    body = codec.encode(make_message(codec.request_shape(V5), 0, values))
    return f.request(V5.key, 5, 7, body, tagged=True)


def asks_nobody() -> bytes:
    return asks(None, -1)


def reply(code: int = 0) -> bytes:
    return f.reply(7, codec.encode(make_message(codec.response_shape(V5), code)))


def at_port(node_id: int | None, cluster_id: str | None = OURS, policies=()) -> Wire:
    """A client at the port of this node, or at the bootstrap port; nodes 0 to 3 have a port."""
    wire = Wire(make_engine(policies), node_id)
    wire.engine.topology.cluster_id = None if cluster_id is None else cluster_id.encode()
    return wire


@pytest.mark.parametrize("chunk", [1 << 18, 1, 7, 40])
@pytest.mark.parametrize(
    ("port", "known", "cluster_id", "node_id", "outcome"),
    [
        (2, OURS, None, -1, PASSED),
        (2, OURS, OURS, 2, PASSED),
        (2, None, OURS, 2, PASSED),
        (2, OURS, OURS, 3, REBOOTSTRAP),
        (2, None, OURS, 3, REBOOTSTRAP),
        (2, OURS, THEIRS, 2, REBOOTSTRAP),
        (2, OURS, None, 2, INVALID),
        (2, OURS, OURS, -1, INVALID),
        (None, OURS, None, -1, PASSED),
        (None, OURS, OURS, 2, PASSED),  # the broker behind says whether it is node 2
        (None, OURS, THEIRS, 2, REBOOTSTRAP),
        (None, OURS, OURS, 77, WITHOUT),  # Sluice itself has sent its clients here
        (None, OURS, THEIRS, 77, REBOOTSTRAP),
        (None, OURS, None, 2, INVALID),
    ],
)
def test_a_port_is_for_its_own_node_and_cluster(chunk, port, known, cluster_id, node_id, outcome):
    """What Sluice cannot judge, the broker judges; the next request passes in any case."""
    wire = at_port(port, known)
    sent = asks(cluster_id, node_id)
    wire.client(sent + f.beat(8), chunk)
    expected = {PASSED: sent, WITHOUT: asks_nobody()}.get(outcome, b"")
    assert wire.to_broker == expected + f.beat(8)
    wire.broker((reply() if expected else b"") + f.beat_reply(8))
    assert wire.to_client == reply(outcome or 0) + f.beat_reply(8)
    assert wire.held_bytes == 0


def test_the_brokers_own_verdict_reaches_the_client():
    """An address that was right for Sluice may lead to another broker by now."""
    wire = at_port(2)
    wire.client(asks(OURS, 2)).broker(reply(REBOOTSTRAP))
    assert wire.to_client == reply(REBOOTSTRAP)


@for_each([Need.HEADER, Need.BODY])
def test_policies_are_asked_and_told_as_of_any_request(need):
    """A refusal of theirs comes first; a throttle holds for the answer made here, and for a request that is changed."""
    for node_id, at_broker in ((3, b""), (77, asks_nobody())):
        port = None if node_id == 77 else 2
        recorder = Recorder(lambda _: Throttle(500, FORWARD), needs=need)
        wire = at_port(port, policies=[recorder])
        wire.client(asks(OURS, node_id))
        assert wire.to_broker == at_broker
        wire.broker(reply() if at_broker else b"")
        told = codec.decode_response(V5, wire.to_client[8:])
        assert told.error_code == (0 if at_broker else REBOOTSTRAP)
        assert told.throttle_time.total_seconds() == 0.5
        assert wire.session.client.muted & Mute.THROTTLED or wire.session.throttle.is_deferred
        assert recorder.asked == [1]

        refuses = at_port(port, policies=[Recorder(lambda _: Reject(44), needs=need)])
        refuses.client(asks(OURS, node_id))
        assert refuses.to_broker == b""
        assert codec.decode_response(V5, refuses.to_client[8:]).error_code == 44


def test_a_request_that_cannot_be_read_ends_the_connection():
    """It never reaches the broker."""
    wire = at_port(2)
    broken = f.request(V5.key, 5, 7, b"\x04lib\x041.0\x30short", tagged=True)
    wire.client(broken)
    assert (wire.to_broker, wire.to_client) == (b"", b"")
    assert wire.session.ended
