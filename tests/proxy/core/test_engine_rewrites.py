"""The engine's part in replies: which are rewritten, and what is learnt from them for all sessions."""

import struct
import uuid
from datetime import timedelta
from importlib import import_module

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from policies.api import Need
from proxy.core.engine import Engine
from proxy.core.session import rewrites
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f
from wire import apis, delegation_tokens
from wire import metadata as wire_metadata
from wire import versions as wire_versions
from wire.apis import Api, ApiKey
from wire.codec import encode

ONE, TWO, THREE = bytes(15) + b"\x01", bytes(15) + b"\x02", bytes(15) + b"\x03"


def metadata(version: int, topics: dict[bytes, str]) -> bytes:
    """Return a Metadata response body with one broker and these topics."""
    kinds = import_module(f"kio.schema.metadata.v{version}.response")
    broker = kinds.MetadataResponseBroker(node_id=1, host="kafka-1.real", port=9092)
    return encode(
        kinds.MetadataResponse(
            throttle_time=timedelta(),
            brokers=(broker,),
            topics=tuple(
                kinds.MetadataResponseTopic(
                    error_code=KioErrorCode.none,
                    name=name,
                    partitions=(),
                    **({"topic_id": uuid.UUID(bytes=topic_id)} if version >= 10 else {}),
                )
                for topic_id, name in topics.items()
            ),
        )
    )


def api(key: int, version: int) -> Api:
    found = apis.find(key, version)
    assert found is not None
    return found


# -- topic names --------------------------------------------------------------------------------


def metadata_through(engine: Engine, version: int, topics: dict[bytes, str], n: int = 1) -> None:
    asked = f.request(f.METADATA, version, n, bytes(9), tagged=version >= 9)
    wire = Wire(engine).client(asked)
    wire.broker(f.reply(n, metadata(version, topics), tagged=version >= 9))
    assert not wire.session.ended
    assert b"kafka-1.real" not in wire.to_client
    assert b"127.0.0.1" in wire.to_client


@pytest.mark.parametrize("version", [10, 12])
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
@pytest.mark.parametrize("need", [Need.HEAD, Need.BODY])
def test_topic_names_are_learnt_from_metadata_when_a_policy_wants_heads(version, key, need):
    """Newer requests name topics by id only; Metadata replies have both."""
    engine = make_engine([Recorder(needs=need, apis={key})])
    metadata_through(engine, version, {ONE: "orders", TWO: "payments"})
    assert engine.rewrites.topics == {ONE: "orders", TWO: "payments"}
    metadata_through(engine, version, {TWO: "renamed"})
    assert engine.rewrites.topics == {ONE: "orders", TWO: "renamed"}


@pytest.mark.parametrize(
    ("version", "policies"),
    [
        (12, []),
        (12, [Recorder()]),
        (12, [Recorder(needs=Need.BODY, apis={ApiKey.HEARTBEAT})]),
        (9, [Recorder(needs=Need.HEAD)]),
    ],
    ids=["no policy", "headers only", "other bodies", "without topic ids"],
)
def test_topic_names_are_not_read_when_no_policy_wants_heads(version, policies):
    """Reading them costs time with a large cluster; versions before 10 have no ids."""
    engine = make_engine(policies)
    metadata_through(engine, version, {ONE: "orders"})
    assert engine.rewrites.topics == {}


def test_the_number_of_topic_names_is_bounded(monkeypatch):
    """Over the bound the cache is emptied and starts with the newest names; it holds within one reply, too."""
    monkeypatch.setattr(rewrites, "MAX_TOPICS", 2)
    engine = make_engine([Recorder(needs=Need.HEAD)])
    metadata_through(engine, 12, {ONE: "one", TWO: "two"})
    metadata_through(engine, 12, {THREE: "three"})
    assert engine.rewrites.topics == {THREE: "three"}
    engine = make_engine([Recorder(needs=Need.HEAD)])
    metadata_through(engine, 12, {ONE: "one", TWO: "two", THREE: "three"})
    assert engine.rewrites.topics == {ONE: "one", TWO: "two"}


def test_learning_names_never_fails_a_reply(monkeypatch):
    """A reply whose topics are malformed or too many passes all the same, and is counted."""
    engine = make_engine([Recorder(needs=Need.HEAD)])
    body = metadata(12, {ONE: "orders"})
    at = body.index(b"orders")
    asked = f.request(f.METADATA, 12, 1, bytes(9), tagged=True)
    wire = Wire(engine).client(asked)
    wire.broker(f.reply(1, body[:at] + b"\xff\xfe" + body[at + 2 :], tagged=True))
    assert not wire.session.ended
    assert b"kafka-1.real" not in wire.to_client
    assert b"\xff\xfeders" in wire.to_client
    assert (engine.rewrites.topics, engine.rewrites.names_unread) == ({}, 1)
    monkeypatch.setattr(wire_metadata, "REPLY_ELEMENT_BUDGET", 2)
    metadata_through(engine, 12, {ONE: "one", TWO: "two"})
    assert (engine.rewrites.topics, engine.rewrites.names_unread) == ({}, 2)
    metadata_through(engine, 12, {ONE: "one"})
    assert (engine.rewrites.topics, engine.rewrites.names_unread) == ({ONE: "one"}, 2)


# -- the replies that are rewritten -------------------------------------------------------------


def test_only_replies_with_addresses_versions_or_owners_of_tokens_are_looked_into():
    """The table of APIs says which ones have addresses."""
    engine = make_engine()
    for facts in apis.BY_KEY_AND_VERSION.values():
        others = facts.key == ApiKey.API_VERSIONS or facts.key in delegation_tokens.APIS
        rewritten = facts.carries_addresses or others
        assert (engine.rewrites.rewrite_for(facts) is not None) is rewritten, facts


def test_api_versions_are_narrowed_to_what_is_offered():
    """A key that `pass_unknown_apis` lets through stays as the broker sent it."""
    engine = make_engine(pass_unknown=(999,))
    ranges = struct.pack(">hhh", 1, 0, 99) + struct.pack(">hhh", 998, 0, 1)
    answer = bytearray(struct.pack(">hi", 0, 3) + ranges + struct.pack(">hhh", 999, 0, 7))
    narrow = engine.rewrites.rewrite_for(api(ApiKey.API_VERSIONS, 0))
    assert narrow is not None
    low, high = apis.OFFERED[ApiKey.FETCH]
    assert narrow(answer, 0, len(answer)) == struct.pack(
        ">hihhhhhh", 0, 2, ApiKey.FETCH, low, high, 999, 0, 7
    )


def describe_cluster() -> tuple[Api, bytes]:
    """Return a DescribeCluster reply for an endpoint of controllers."""
    kinds = import_module("kio.schema.describe_cluster.v1.response")
    node = kinds.DescribeClusterBroker(broker_id=1, host="controller.real", port=9093)
    return api(ApiKey.DESCRIBE_CLUSTER, 1), encode(
        kinds.DescribeClusterResponse(
            throttle_time=timedelta(),
            error_code=KioErrorCode.none,
            endpoint_type=2,
            cluster_id="c",
            brokers=(node,),
        )
    )


def describe_quorum() -> tuple[Api, bytes]:
    kinds = import_module("kio.schema.describe_quorum.v2.response")
    listener = kinds.Listener(name="CONTROLLER", host="controller.real", port=9093)
    return api(ApiKey.DESCRIBE_QUORUM, 2), encode(
        kinds.DescribeQuorumResponse(
            error_code=KioErrorCode.none,
            error_message=None,
            topics=(),
            nodes=(kinds.Node(node_id=1, listeners=(listener,)),),
        )
    )


@pytest.mark.parametrize("made", [describe_cluster, describe_quorum])
def test_controllers_are_hidden_and_never_taken_for_brokers(made):
    """A client of node 1 must not end up at a controller's listener."""
    engine = make_engine()
    facts, answer = made()
    rewrite = engine.rewrites.rewrite_for(facts)
    assert rewrite is not None
    told = rewrite(bytearray(answer), 0, len(answer))
    assert told is not None
    assert b"controller.real" not in told
    assert engine.topology.address_of(1) is None
    assert isinstance(engine.observer, Watcher)
    assert engine.observer.learned == {}


# -- versions -----------------------------------------------------------------------------------


def versions_reply(*ranges: tuple[int, int, int]) -> bytes:
    return struct.pack(">hi", 0, len(ranges)) + b"".join(
        struct.pack(">hhh", *each) for each in ranges
    )


def test_a_kept_reply_about_versions_is_not_given_for_another_one_nor_under_other_settings():
    """Brokers of two releases answer in turns, a third with too many bytes; then a chain and a login change it."""
    engine = make_engine()
    narrow = engine.rewrites.rewrite_for(api(ApiKey.API_VERSIONS, 0))
    assert narrow is not None
    bodies = [
        versions_reply((ApiKey.HEARTBEAT, 0, 1)),
        versions_reply((ApiKey.HEARTBEAT, 0, 2)),
        versions_reply(*[(ApiKey.HEARTBEAT, 0, 3)] * rewrites.MAX_KEPT_VERSIONS_BYTES),
    ]

    def check() -> None:
        for body in (*bodies, bodies[0], bodies[2], bodies[0], bodies[0], bodies[1], bodies[1]):
            ours = engine.rewrites
            shown = {key: ours.offered[key] for key in ours.offered.keys() - ours.hidden}
            buf = bytearray(b"before" + body + b"after")
            assert narrow(buf, 6, 6 + len(body)) == wire_versions.narrow(
                body, 0, len(body), 0, shown, ours.pass_unknown, ours.served
            )

    check()
    engine.rewrites.hidden = frozenset({ApiKey.HEARTBEAT})
    check()
    engine.rewrites.served = frozenset({ApiKey.SASL_HANDSHAKE})
    check()
    engine.rewrites.hidden = frozenset()
    engine.rewrites.offered = {**engine.rewrites.offered, ApiKey.HEARTBEAT: (0, 1)}
    check()
