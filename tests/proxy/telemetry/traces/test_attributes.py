"""The attributes of spans, each compared with what the request did."""

from dataclasses import replace
from struct import pack

import pytest

from policies.api import Outcome, QuotaViolation
from proxy.core.stats.request_trace import Stage
from proxy.telemetry.traces import attributes
from proxy.telemetry.traces.attributes import KnownNames
from tests.support.messages.frames import produce
from tests.support.telemetry.request_traces import EPOCH_US, PEER, trace, waits
from wire.apis import ApiKey
from wire.produce import ProduceWalker

NOTHING = KnownNames()


def packed(topics):
    """Return the form in which the core keeps these topics: (name or id, partition indexes)."""
    found = b""
    for topic, partitions in topics:
        name = topic if isinstance(topic, bytes) else topic.encode()
        found += pack(">Hi", len(name), len(partitions)) + name
        found += pack(f">{len(partitions)}i", *partitions)
    return found


def test_a_sampled_produce_has_all_its_attributes():
    """The request was forwarded and answered."""
    made = trace(version=9)
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
        "sluice.principal.proof": "",
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


def test_an_unknown_value_has_no_attribute():
    """A Heartbeat at the bootstrap port without a client id has no operation type, topic or client id."""
    peer = replace(PEER, client_id="", node_id=None)
    found = attributes.of_request(trace(api_key=ApiKey.HEARTBEAT, version=4, peer=peer), "")

    assert found["sluice.node"] == "bootstrap"
    assert not found.keys() & {
        *("messaging.operation.type", "messaging.destination.name", "messaging.client.id"),
        *("error.type", "sluice.throttle.ms", "sluice.throttle_time_ms", "sluice.quota.entity"),
    }


def test_a_throttled_request_has_the_attributes_of_its_quota():
    """They are the entity, the quota, the observed and allowed values, and the times of wait and mute."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, 10.0)
    stages = waits(("throttle", 1500), ("throttle", 250), ("purgatory", 9))
    found = attributes.of_request(trace(stages, excess=excess, quiet_ms=40), "")

    assert found["sluice.throttle.ms"] == 1.75
    assert found["sluice.throttle_time_ms"] == 40
    assert found["sluice.quota.entity"] == "user alice"
    assert found["sluice.quota.name"] == "request_rate"
    assert found["sluice.quota.observed"] == 12.5
    assert found["sluice.quota.bound"] == 10.0
    assert found["sluice.reasons"] == ("throttled", "held")


def test_a_watch_key_is_shown_on_its_wait_if_it_has_a_text_of_its_own():
    """The quota is on the throttle and not on other waits; an object's address in memory is not information."""
    made = trace(excess=QuotaViolation("user alice", "request_rate", 12.5, 10.0))
    held = Stage("purgatory", EPOCH_US, EPOCH_US + 5, "topic:orders", "condition")

    assert "sluice.quota.bound" in attributes.of_wait(made, *waits(("throttle", 5)), 1)
    assert attributes.of_wait(made, held, 1) == {
        "sluice.condition": "topic:orders",
        "sluice.purgatory.outcome": "condition",
    }

    held = Stage("purgatory", EPOCH_US, EPOCH_US + 5, str(object()), "condition")

    assert attributes.of_wait(trace(), held, 1) == {"sluice.purgatory.outcome": "condition"}


@pytest.mark.parametrize(
    ("code", "name"), [(44, "POLICY_VIOLATION"), (29, "TOPIC_AUTHORIZATION_FAILED"), (9999, "9999")]
)
def test_the_error_type_of_a_refusal_is_kafkas_name(code, name):
    """It is the number of a code that has no name."""
    made = trace(upstream_us=None, outcome=Outcome.ANSWERED)
    made.refused, made.refused_by = code, "limits"
    found = attributes.of_request(made, "")

    assert found["sluice.refused.policy"] == "limits"

    assert (found["error.type"], found["sluice.refused.code"]) == (name, code)
    assert found["sluice.reasons"] == ("refused",)


@pytest.mark.parametrize("outcome", [Outcome.EXPIRED, Outcome.DISCONNECTED])
def test_a_request_without_the_brokers_reply_is_an_error(outcome):
    """Both the SERVER span and `upstream` have failed."""
    made = trace(outcome=outcome)

    assert attributes.of_request(made, "")["error.type"] == outcome.value
    assert attributes.of_request(made, "")["sluice.reasons"] == (outcome.value,)
    assert attributes.of_upstream(made, NOTHING)["error.type"] == outcome.value


@pytest.mark.parametrize("outcome", [Outcome.REPLIED, Outcome.NO_REPLY, Outcome.ANSWERED])
def test_ordinary_ends_are_not_errors(outcome):
    """A policy's own reply is one of them."""
    assert attributes.error_type(trace(outcome=outcome)) is None


def test_all_reasons_that_apply_are_listed():
    """A request may be slow, sampled, short of memory and throttled at once."""
    made = trace(waits(("memory", 5)), quiet_ms=10)
    made.slow = made.sampled = True

    assert attributes.reasons(made) == ("throttled", "out_of_memory", "slow", "sampled")


def test_upstream_has_the_brokers_real_address_if_it_is_known():
    """It is the address that the cluster reported for the node."""
    known = KnownNames({2: ("broker-2.internal", 9092)}.get)

    assert attributes.of_upstream(trace(), known) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "sluice.node": "2",
        "server.address": "broker-2.internal",
        "server.port": 9092,
    }
    assert "server.address" not in attributes.of_upstream(trace(), NOTHING)
    bootstrap = trace(peer=replace(PEER, node_id=None))
    assert "server.address" not in attributes.of_upstream(bootstrap, known)


def kept(version, data):
    made = trace(version=version)
    made.kept = data
    return made


@pytest.mark.parametrize(
    "data",
    [
        bytearray(produce(5, topic="orders", size_bytes=50)),
        bytearray(produce(5, topic="orders", size_bytes=5000)[:80]),  # the head of a large one
        packed([("orders", [0, 1, 2])]),
    ],
    ids=["frame", "head", "packed"],
)
def test_the_only_topic_of_a_produce_is_found(data):
    """This holds for each form in which the core keeps a request."""
    assert attributes.topic_of(kept(3, data), NOTHING) == "orders"


def test_a_topic_id_is_looked_up():
    """A Produce has topic ids from v13 on; their names are known from Metadata."""
    topic_id = bytes(range(16))
    made = kept(13, packed([(topic_id, [0])]))

    assert attributes.topic_of(made, KnownNames(topics={topic_id: "orders"})) == "orders"
    assert attributes.topic_of(made, NOTHING) == ""


@pytest.mark.parametrize(
    "data",
    [
        None,
        packed([("a", [0]), ("b", [0])]),
        packed([]),
        ProduceWalker(3),
        bytearray(b"\x00\x00"),
        bytearray(b"\x00\x00\x00\x05nonsense"),
        bytearray(produce(5, topic="orders").replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa")),
    ],
    ids=["nothing", "two", "none", "half", "short", "nonsense", "no text"],
)
def test_a_request_without_exactly_one_topic_has_no_topic(data):
    """It may have several, or be malformed; nothing is raised."""
    assert attributes.topic_of(kept(3, data), NOTHING) == ""


def test_names_that_a_client_chooses_are_made_printable_and_cut():
    """A client id may have control characters, or a megabyte."""
    nasty = attributes.of_request(trace(peer=replace(PEER, client_id="a\n\x1b[31m\ud800b")), "")
    long = attributes.of_request(trace(peer=replace(PEER, user="x" * (1 << 20))), "")

    assert nasty["messaging.client.id"] == "a??[31m?b"
    assert long["user.name"] == "x" * 249
