"""What spans say: each attribute against what the request did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.api import Outcome, QuotaViolation
from proxy.core.stats.request_trace import Stage
from proxy.telemetry.traces import attributes
from proxy.telemetry.traces.attributes import Known
from tests.support.frames import produce
from tests.support.trails import EPOCH_US, PEER, trail, waits
from wire import produce_partitions
from wire.apis import ApiKey
from wire.produce import ProduceWalker

NOTHING = Known()


def test_a_produce_says_everything_about_itself():
    """All attributes of an ordinary sampled Produce."""
    made = trail(version=9)
    made.sampled = True

    assert attributes.of_request(made, "orders") == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "billing-1",
        "client.address": "10.0.0.9",
        "client.port": 40000,
        "user.name": "alice",
        "sluice.principal.source": "none",
        "sluice.session": 7,
        "sluice.node": "2",
        "sluice.api.key": 0,
        "sluice.api.version": 9,
        "sluice.correlation_id": 77,
        "sluice.request.size": 1000,
        "sluice.reply.size": 90,
        "sluice.outcome": "replied",
        "sluice.reasons": ("sampled",),
    }


def test_what_is_not_there_is_not_said():
    """A heartbeat at the bootstrap port, of a client without a name: no operation type, topic or client id."""
    peer = replace(PEER, client_id="", node_id=None)
    found = attributes.of_request(trail(api_key=ApiKey.HEARTBEAT, version=4, peer=peer), "")

    assert found["sluice.node"] == "bootstrap"
    assert not found.keys() & {
        *("messaging.operation.type", "messaging.destination.name", "messaging.client.id"),
        *("error.type", "sluice.throttle.ms", "sluice.throttle_time_ms", "sluice.quota.entity"),
    }


def test_a_throttled_request_names_its_quota():
    """Whose bucket, which limit, what was seen and what is allowed; how long it waited and must be quiet."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, 10.0)
    stages = waits(("throttle", 1500), ("throttle", 250), ("purgatory", 9))
    found = attributes.of_request(trail(stages, excess=excess, quiet_ms=40), "")

    assert found["sluice.throttle.ms"] == 1.75
    assert found["sluice.throttle_time_ms"] == 40
    assert found["sluice.quota.entity"] == "user alice"
    assert found["sluice.quota.name"] == "request_rate"
    assert found["sluice.quota.observed"] == 12.5
    assert found["sluice.quota.bound"] == 10.0
    assert found["sluice.reasons"] == ("throttled", "held")


def test_the_quota_is_on_the_throttle_and_not_on_other_waits():
    """A wait for a policy's condition says the condition."""
    made = trail(excess=QuotaViolation("user alice", "request_rate", 12.5, 10.0))
    held = Stage("purgatory", EPOCH_US, EPOCH_US + 5, "topic:orders", "condition")

    assert "sluice.quota.bound" in attributes.of_wait(made, *waits(("throttle", 5)), 1)
    assert attributes.of_wait(made, held, 1) == {
        "sluice.condition": "topic:orders",
        "sluice.purgatory.outcome": "condition",
    }


def test_a_watch_key_without_words_is_not_shown():
    """An object's address in memory says nothing to anybody."""
    held = Stage("purgatory", EPOCH_US, EPOCH_US + 5, str(object()), "condition")

    assert attributes.of_wait(trail(), held, 1) == {"sluice.purgatory.outcome": "condition"}


@pytest.mark.parametrize(
    ("code", "name"), [(44, "POLICY_VIOLATION"), (29, "TOPIC_AUTHORIZATION_FAILED"), (9999, "9999")]
)
def test_a_refusal_is_named_as_kafka_names_it(code, name):
    """`error.type` is Kafka's name of the code, or its number."""
    made = trail(upstream_us=None, outcome=Outcome.ANSWERED)
    made.refused, made.refused_by = code, "limits"
    found = attributes.of_request(made, "")

    assert found["sluice.refused.policy"] == "limits"

    assert (found["error.type"], found["sluice.refused.code"]) == (name, code)
    assert found["sluice.reasons"] == ("refused",)


@pytest.mark.parametrize("outcome", [Outcome.EXPIRED, Outcome.DISCONNECTED])
def test_a_broker_that_did_not_answer_is_an_error(outcome):
    """Of the request and of `upstream`."""
    made = trail(outcome=outcome)

    assert attributes.of_request(made, "")["error.type"] == outcome.value
    assert attributes.of_request(made, "")["sluice.reasons"] == (outcome.value,)
    assert attributes.of_upstream(made, NOTHING)["error.type"] == outcome.value


@pytest.mark.parametrize("outcome", [Outcome.REPLIED, Outcome.NO_REPLY, Outcome.ANSWERED])
def test_ordinary_ends_are_no_errors(outcome):
    """A policy's own answer is one of them."""
    assert attributes.error_type(trail(outcome=outcome)) is None


def test_reasons_are_all_that_hold():
    """Slow, sampled, short of memory and quiet afterwards at once."""
    made = trail(waits(("memory", 5)), quiet_ms=10)
    made.slow = made.sampled = True

    assert attributes.reasons(made) == ("throttled", "out_of_memory", "slow", "sampled")


def test_upstream_says_which_broker_if_that_is_known():
    """Where node 2 really is, as the cluster has said."""
    known = Known({2: ("broker-2.internal", 9092)}.get)

    assert attributes.of_upstream(trail(), known) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "sluice.node": "2",
        "server.address": "broker-2.internal",
        "server.port": 9092,
    }
    assert "server.address" not in attributes.of_upstream(trail(), NOTHING)
    bootstrap = trail(peer=replace(PEER, node_id=None))
    assert "server.address" not in attributes.of_upstream(bootstrap, known)


def kept(version, data):
    made = trail(version=version)
    made.kept = data
    return made


@pytest.mark.parametrize(
    "data",
    [
        bytearray(produce(5, topic="orders", size_bytes=50)),
        bytearray(produce(5, topic="orders", size_bytes=5000)[:80]),  # of a large one only the head
        produce_partitions.pack([("orders", [0, 1, 2])]),
    ],
    ids=["frame", "head", "packed"],
)
def test_the_one_topic_of_a_produce_is_found(data):
    """In whatever form the core has kept it."""
    assert attributes.topic_of(kept(3, data), NOTHING) == "orders"


def test_a_topic_id_is_looked_up():
    """From version 13 on a Produce has ids; a name is known if Metadata has told."""
    topic_id = bytes(range(16))
    made = kept(13, produce_partitions.pack([(topic_id, [0])]))

    assert attributes.topic_of(made, Known(topics={topic_id: "orders"})) == "orders"
    assert attributes.topic_of(made, NOTHING) == ""


@pytest.mark.parametrize(
    "data",
    [
        None,
        produce_partitions.pack([("a", [0]), ("b", [0])]),
        produce_partitions.pack([]),
        ProduceWalker(3),
        bytearray(b"\x00\x00"),
        bytearray(b"\x00\x00\x00\x05nonsense"),
        bytearray(produce(5, topic="orders").replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa")),
    ],
    ids=["nothing", "two", "none", "half", "short", "nonsense", "no text"],
)
def test_no_topic_is_said_where_none_can_be(data):
    """Not one of several, nor one that cannot be read; and nothing is raised."""
    assert attributes.topic_of(kept(3, data), NOTHING) == ""


def test_names_that_peers_choose_are_made_printable_and_cut():
    """A client id of control characters, and one of a megabyte."""
    nasty = attributes.of_request(trail(peer=replace(PEER, client_id="a\n\x1b[31m\ud800b")), "")
    long = attributes.of_request(trail(peer=replace(PEER, user="x" * (1 << 20))), "")

    assert nasty["messaging.client.id"] == "a??[31m?b"
    assert long["user.name"] == "x" * 249
