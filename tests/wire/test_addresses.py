"""Every response that names brokers names, in every version, only the advertised addresses."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kio.schema.metadata.v12.response import MetadataResponse as MetadataResponse12
from kio.schema.metadata.v12.response import MetadataResponseBroker

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, changed, messages_of, name, survives
from wire import codec
from wire.addresses import LISTENER_APIS, rewriter
from wire.apis import BY_KEY_AND_VERSION, ApiKey
from wire.primitives import INT32, encode_compact, encode_compact_count
from wire.schema import make_message

CARRIERS = [
    *(api for api in BY_KEY_AND_VERSION.values() if api.carries_addresses),
    *(api_of(ApiKey.FETCH, version) for version in (16, 17, 18)),
]
KNOWN = [api for api in CARRIERS if codec.is_known(api)]
KAFKA_PYTHON = {
    ApiKey.METADATA: MetadataResponse,
    ApiKey.FIND_COORDINATOR: FindCoordinatorResponse,
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterResponse,
}
STALE = b"\x02\x00stale bytes of an older frame\xff\x7f\x00\x02"


def advertise(node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
    """Return hosts of several lengths, so that size bytes and tag sizes grow and shrink."""
    told = (b"127.0.0.1", b"p", b"proxy." * 40, host)[node_id % 4]
    return told, (port + node_id + 1) % 0x10000


def rewritten(api, body: bytes, told=advertise) -> bytes:
    """Return the body after rewriting; other bytes stand before and after it in the buffer."""
    rewrite = rewriter(api)
    assert rewrite is not None
    buf = bytearray(b"before" + body + STALE)
    new = rewrite(buf, 6, 6 + len(body), told)
    assert buf == b"before" + body + STALE
    return body if new is None else new


def told_to_client(struct, owner):
    """Return the struct as the client should read it."""
    if not hasattr(struct, "host") or not struct.host:
        return struct
    node_id = getattr(struct, "node_id", getattr(struct, "broker_id", None))
    if node_id is None:  # DescribeQuorum: the id is the node's, the listeners are its own
        node_id = owner.node_id
    host, port = advertise(node_id, struct.host.encode(), struct.port)
    return replace(struct, host=host.decode(), port=port)


@for_each(KNOWN, examples=15)
def test_only_hosts_and_ports_change(api, data):
    """A rewritten response decodes to the same message; only hosts and ports differ."""
    message = data.draw(messages_of(codec.response_shape(api)))
    new = rewritten(api, codec.encode(message))
    assert codec.decode_response(api, new) == changed(message, told_to_client)


def crowded(shape, count: int):
    """Yield messages that are blank but for one array, of any depth, with so many items of the least size."""
    for field in (*shape.untagged, *shape.tagged.values()):
        if field.is_array:
            item = 0 if field.shape is None else make_message(field.shape, 0)
            yield make_message(shape, 0, {field.name: (item,) * count})
        if field.shape is not None:
            for inner in crowded(field.shape, count):
                yield make_message(shape, 0, {field.name: (inner,) if field.is_array else inner})


@for_each(KNOWN)
def test_a_count_is_refused_only_if_its_items_cannot_fit(api):
    """A count of two hundred items of the least size is none that could exhaust the memory."""
    for message in crowded(codec.response_shape(api), 200):
        new = rewritten(api, codec.encode(message))
        assert codec.decode_response(api, new) == changed(message, told_to_client)


@for_each(KNOWN, examples=6)
def test_a_response_that_already_names_the_advertised_address_is_not_copied(api, data):
    """The rewriter returns None when no address in a response changes."""
    message = data.draw(messages_of(codec.response_shape(api)))
    body = bytearray(codec.encode(message))
    assert rewriter(api)(body, 0, len(body), lambda _, host, port: (host, port)) is None


@for_each(KNOWN, examples=6)
def test_bytes_after_the_end_do_not_change_the_outcome(api, data):
    """A body cut at any byte gives the same outcome with any bytes after the cut."""
    body = codec.encode(data.draw(messages_of(codec.response_shape(api))))
    cut = data.draw(st.integers(0, len(body)))
    asked: list[list[tuple[int, bytes, int]]] = []
    outcomes = []
    for tail in (body[cut:], STALE * 3, b""):
        asked.append([])

        def told(node_id, host, port, seen=asked[-1]):
            seen.append((node_id, host, port))
            return advertise(node_id, host, port)

        outcomes.append(survives(rewriter(api), bytearray(body[:cut] + tail), 0, cut, told))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert asked[0] == asked[1] == asked[2]


@for_each(CARRIERS)
def test_every_carrier_has_a_rewriter(api):
    """Every version that the table marks as carrying addresses has a rewriter."""
    assert rewriter(api) is not None


def test_an_api_without_addresses_has_no_rewriter():
    """A response that carries no address is not parsed."""
    others = [api for api in BY_KEY_AND_VERSION.values() if not api.carries_addresses]
    assert others
    assert not [api for api in others if rewriter(api)]


def test_the_table_agrees_with_the_schemas():
    """A version carries addresses exactly if its schema has a broker's host in it."""
    not_brokers = {
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    }

    def has_host(shape):
        every = (*shape.untagged, *shape.tagged.values())
        return any(f.name == "host" or (f.shape and has_host(f.shape)) for f in every)

    for api in BY_KEY_AND_VERSION.values():
        if codec.is_known(api) and api.key not in not_brokers:
            assert has_host(codec.response_shape(api)) == api.carries_addresses, name(api)


def test_only_brokers_own_listeners_are_learnt():
    """A response that may name controllers does not teach where a broker can be dialled."""
    assert {api.key for api in CARRIERS} - LISTENER_APIS == {
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_QUORUM,
    }


@for_each([(key, v) for key, cls in KAFKA_PYTHON.items() for v in range(cls.max_version + 1)])
def test_kafka_python_reads_the_same(key, version):
    """A second codec, kafka-python, reads the advertised addresses from a rewritten response."""
    response, listed = kafka_python_response(key, version)
    new = rewritten(api_of(key, version), bytes(response.encode(version=version)), by_id)
    for each in listed:
        node_id = each.broker_id if key == ApiKey.DESCRIBE_CLUSTER else each.node_id
        host, each.port = by_id(node_id)
        each.host = host.decode()
    cls = type(response)
    meant = cls.decode(response.encode(version=version), version=version)
    assert cls.decode(new, version=version).to_dict() == meant.to_dict()


def by_id(node_id: int, *_) -> tuple[bytes, int]:
    return b"127.0.0.1", 19093 + node_id


def kafka_python_response(key, version):
    """Return a response with five brokers of growing names, and these brokers."""
    cls = KAFKA_PYTHON[key]
    brokers = [(n, "kafka-" + "x" * (n * 50), 9092 + n) for n in range(5)]
    said = {"throttle_time_ms": 0, "error_code": 0, "error_message": None}
    if key == ApiKey.FIND_COORDINATOR:
        if version < 4:
            response = cls(node_id=2, host=brokers[2][1], port=9094, **said)
            return response, [response]
        item = cls.fields["coordinators"].data_class
        rest = {"key": "group", "error_code": 0, "error_message": "none"}
        listed = [item(node_id=n, host=host, port=port, **rest) for n, host, port in brokers]
        return cls(throttle_time_ms=0, coordinators=listed), listed
    item = cls.fields["brokers"].data_class
    said |= {"cluster_id": "MkU3OEVBNTcwNTJENDM2Qg", "controller_id": 1}
    if key == ApiKey.METADATA:
        rack = "rack-" * 40 if version else None
        listed = [item(node_id=n, host=host, port=port, rack=rack) for n, host, port in brokers]
        del said["error_message"]
        return cls(brokers=listed, topics=[], **said), listed
    rest = {"rack": None, "is_fenced": False}
    listed = [item(broker_id=n, host=host, port=port, **rest) for n, host, port in brokers]
    return cls(brokers=listed, **said), listed


def test_find_coordinator_without_a_node_stays():
    """An unavailable coordinator has id -1 and an empty host (librdkafka: null), and keeps them."""
    never = rewriter(api_of(ApiKey.FIND_COORDINATOR, 2))
    for host in (b"\x00\x00", b"\xff\xff"):
        body = b"\x00\x00\x00\x00\x00\x0f\xff\xff\xff\xff\xff\xff" + host + b"\xff\xff\xff\xff"
        assert never(bytearray(body), 0, len(body), advertise) is None
    body = bytes(4) + b"\x02\x02g\xff\xff\xff\xff\x01\xff\xff\xff\xff\x00\x0f\x00\x00\x00"
    batched = rewriter(api_of(ApiKey.FIND_COORDINATOR, 4))
    assert batched(bytearray(body), 0, len(body), advertise) is None


def test_unknown_tags_of_brokers_pass():
    """An unknown tagged field of a broker is kept byte for byte."""
    tags = b"\x02\x05\x01x\xe7\x24\x03new"
    brokers = b"".join(
        INT32.pack(n) + encode_compact(b"kafka-%d" % n) + INT32.pack(9092) + b"\x00" + each
        for n, each in ((1, b"\x00"), (2, tags), (3, b"\x00"))
    )
    body = bytes(4) + encode_compact_count(3) + brokers + b"\x00" + bytes(4) + b"\x01" + tags
    new = rewritten(api_of(ApiKey.METADATA, 12), body, lambda n, *_: (b"proxy", 100 + n))
    told = b"".join(
        INT32.pack(n) + encode_compact(b"proxy") + INT32.pack(100 + n) + b"\x00" + each
        for n, each in ((1, b"\x00"), (2, tags), (3, b"\x00"))
    )
    assert new == body.replace(brokers, told)


@pytest.mark.parametrize("rack", [None, "a", "r" * 200])
def test_equal_and_different_neighbours_are_rewritten(rack):
    """Runs of equal brokers, single brokers and different ones between them are all rewritten."""
    hosts = ["h" * size for size in (3, 3, 3, 9, 130, 130, 3, 9, 9, 1, 126, 127, 126, 126, 3)]
    hosts[6] = ""
    brokers = tuple(
        MetadataResponseBroker(node_id=n, host=host, port=9092, rack=rack if n % 5 else None)
        for n, host in enumerate(hosts)
    )
    message = MetadataResponse12(throttle_time=timedelta(0), brokers=brokers, topics=())
    api = api_of(ApiKey.METADATA, 12)
    new = codec.decode_response(api, rewritten(api, codec.encode(message), by_id))
    told = [(b.host, b.port, b.rack) for b in new.brokers]
    assert told == [
        ("127.0.0.1", 19093 + n, broker.rack) if broker.host else ("", 9092, broker.rack)
        for n, broker in enumerate(brokers)
    ]
