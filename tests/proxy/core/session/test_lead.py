"""Replies with all addresses in their first part: each is rewritten as the first one was, and nothing else changes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import CloseReason
from proxy.core.session import lead as lead_module
from proxy.core.session.lead import LEFT_ALONE, Lead
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire import addresses, apis
from wire.apis import ApiKey
from wire.header import response_body_at
from wire.varint import encode_uvarint

VERSIONS = (0, 1, 2, 3, 8, 9, 12)
LISTS = (
    [],
    [(0, "k", 9092)],
    [(0, "kafka-0.kafka.svc.cluster.local", 9092), (1, "kafka-1.kafka.svc.cluster.local", 9092)],
    [(0, "kafka-9.kafka.svc.cluster.local", 9092), (1, "kafka-1.kafka.svc.cluster.local", 9092)],
    [(0, "127.0.0.1", 19093)],
    [(50, "not-declared", 1)],
)


def metadata(version: int, number: int, brokers: list[tuple[int, str, int]], rest: int) -> bytes:
    """Return a Metadata reply with `rest` bytes after its brokers."""
    flexible = version >= 9
    text = f.compact if flexible else f.string
    listed = encode_uvarint(len(brokers) + 1) if flexible else struct.pack(">i", len(brokers))
    for node_id, host, port in brokers:
        listed += struct.pack(">i", node_id) + text(host) + struct.pack(">i", port)
        listed += text("rack") if version >= 1 else b""
        listed += b"\0" if flexible else b""
    throttle = struct.pack(">i", number % 3) if version >= 3 else b""
    return f.reply(number, throttle + listed + bytes(rest), tagged=flexible)


def rewritten(version: int, reply: bytes) -> bytes:
    """Return what a client has to get, rewritten by another engine."""
    api = apis.find(ApiKey.METADATA, version)
    assert api is not None
    rewrite = addresses.rewriter(api)
    assert rewrite is not None
    at = response_body_at(reply, 0, len(reply), api.response_header_version)
    assert at is not None
    body = rewrite(bytearray(reply), at, len(reply), make_engine().topology.advertise)
    if body is None:
        return reply
    return struct.pack(">i", at - 4 + len(body)) + reply[4:at] + body


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.sampled_from(LISTS), st.sampled_from([0, 1, 3000])), max_size=6),
    st.integers(1, 4000),
)
def test_each_client_gets_what_a_rewrite_of_its_reply_alone_would_give_it(version, replies, chunk):
    """However the replies are cut, and whichever list came before: the same one, one of its size, a longer one."""
    wire = Wire()
    came, due = b"", b""
    for number, (brokers, rest) in enumerate(replies):
        wire.client(
            f.request(f.METADATA, version, 2 * number, b"\xff\xff\xff\xff", tagged=version >= 9)
            + f.heartbeat(2 * number + 1)
        )
        reply = metadata(version, 2 * number, brokers, rest)
        came += reply + f.heartbeat_reply(2 * number + 1)
        due += rewritten(version, reply) + f.heartbeat_reply(2 * number + 1)
    wire.broker(came, chunk)
    assert not wire.session.ended
    assert wire.to_client == due
    wire.release()
    assert wire.held_bytes == 0


CLIENTS = st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("asks"), CLIENTS, st.sampled_from(LISTS), st.sampled_from([0, 1, 3000])),
    st.tuples(st.just("gets"), CLIENTS, st.integers(1, 120)),
    st.tuples(st.just("gets"), CLIENTS, st.integers(1, 120)),
    st.tuples(st.just("learns"), st.sampled_from(LISTS)),
    st.tuples(st.just("wants names"), st.booleans()),
)


@given(st.tuples(*[st.sampled_from(VERSIONS)] * 3), st.lists(STEPS, max_size=40))
def test_lists_that_change_between_the_reads_of_a_reply_leave_each_client_its_own(versions, steps):
    """The replies of three clients arrive by turns and in parts; brokers move, and names are read or not, meanwhile."""
    engine = make_engine()
    wires = [Wire(engine) for _ in versions]
    coming, due = [b"", b"", b""], [b"", b"", b""]
    for number, step in enumerate(steps):
        match step:
            case ("asks", who, brokers, rest):
                version = versions[who]
                asked = f.request(f.METADATA, version, number, b"\xff" * 4, tagged=version >= 9)
                wires[who].client(asked)
                reply = metadata(version, number, brokers, rest)
                coming[who] += reply
                due[who] += rewritten(version, reply)
            case ("gets", who, size):
                wires[who].broker(coming[who][:size])
                coming[who] = coming[who][size:]
                assert due[who].startswith(wires[who].to_client)
            case ("learns", brokers):
                engine.topology.learn({n: (host.encode(), port) for n, host, port in brokers})
            case ("wants names", wanted):
                engine.rewrites.want_topic_names(wanted=wanted)
                engine.forget_plans()
    for wire, left, whole in zip(wires, coming, due, strict=True):
        wire.broker(left)
        assert wire.to_client == whole
        assert not wire.session.ended
        wire.release()
    assert wires[0].held_bytes == 0


def led(engine) -> Lead:
    api = apis.find(ApiKey.METADATA, 1)
    assert api is not None
    found = engine.rewrites.lead_for(api)
    assert found is not None
    return found


def test_a_list_that_is_known_is_not_read_again():
    """Each reply of a cluster has it. An address that is learnt ends that: the list may teach the old one again."""
    engine = make_engine()
    lead, topology = led(engine), engine.topology
    read: list[int] = []
    find = lead._find

    def noted(buf, start, end, advertise):
        read.append(start)
        return find(buf, start, end, advertise)

    lead._find = noted
    there = [(1, "kafka-1.there", 9092)]
    for number in range(5):
        reply = metadata(1, number, there, 100)
        buf = bytearray(b"before" + reply)
        begin = lead.in_place(buf, 6, len(buf))
        assert buf[begin:] == rewritten(1, reply)
    assert len(read) == 1
    topology.learn({1: (b"elsewhere", 9092)})
    reply = metadata(1, 6, there, 0)
    lead.in_place(bytearray(reply), 0, len(reply))
    assert topology.address_of(1) == ("kafka-1.there", 9092)
    assert len(read) == 2


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("chunk", [1 << 18, 1, 90])
@pytest.mark.parametrize("wants_names", [False, True])
def test_the_cluster_id_is_learnt_as_often_as_it_changes(version, chunk, wants_names):
    """Another cluster may have brokers of the same addresses; a reply without one teaches nothing."""
    wire = Wire()
    wire.engine.rewrites.want_topic_names(wanted=wants_names)
    text = f.compact if version >= 9 else f.string
    topics = struct.pack(">i", 1) + (b"\x01\0" if version >= 9 else bytes(4))
    head = metadata(version, 0, [(1, "kafka-1.there", 9092)], 0)[9 if version >= 9 else 8 :]
    for name, known in (("ours", b"ours"), (None, b"ours"), ("theirs", b"theirs"), ("ours", b"ours")):  # fmt: skip
        wire.client(f.request(f.METADATA, version, 7, b"\xff" * 4, tagged=version >= 9))
        wire.broker(f.reply(7, head + text(name) + topics, tagged=version >= 9), chunk)
        assert not wire.session.ended
        assert wire.engine.topology.cluster_id == known


@pytest.mark.parametrize(
    ("reply", "end"),
    [
        (metadata(1, 1, [(0, "k", 9092)], 0), None),  # no room before it for the longer address
        (metadata(1, 1, [(0, "kafka-0.long.name", 9092)], 0), 30),  # not all of the list is here
        (metadata(1, 1, [(0, "kafka-0.long.name", 0)], 0), None),  # a port that no one can dial
        (metadata(1, 1, [(n, "h" * 250, 9092) for n in range(300)], 0), None),  # too long
        (f.reply(1, struct.pack(">i", 1_000_000)), None),
        (f.reply(1, b""), None),
    ],
)
def test_what_is_unusual_is_left_alone(reply, end):
    """Not a byte changes: the rewrite of whole replies decides, and names the fault."""
    buf = bytearray(reply)
    assert led(make_engine()).in_place(buf, 0, end or len(buf)) == LEFT_ALONE
    assert buf == reply


def test_a_header_with_tags_is_left_alone():
    """Its body begins elsewhere."""
    api = apis.find(ApiKey.METADATA, 12)
    assert api is not None
    lead = make_engine().rewrites.lead_for(api)
    assert lead is not None
    reply = metadata(12, 1, [(0, "kafka-0.long.name", 9092)], 0)
    tagged = bytearray(reply[:8] + b"\x01\x05\x01x" + reply[9:])
    assert lead.in_place(tagged, 0, len(tagged)) == LEFT_ALONE


def test_a_malformed_list_ends_the_session_after_the_replies_before_it():
    """As without a list that is kept."""
    wire = Wire().client(f.metadata_request(1) + f.metadata_request(2))
    good = metadata(1, 1, [(1, "kafka-1.internal", 9092)], 4)
    wire.broker(good + metadata(1, 2, [(1, "kafka-1.internal", 70_000)], 4))
    assert wire.to_client == rewritten(1, good)
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL


def test_a_kept_list_has_a_bound(monkeypatch):
    """One that is longer is rewritten each time."""
    monkeypatch.setattr(lead_module, "MAX_KEPT_BYTES", 30)
    wire = Wire().client(f.metadata_request(1))
    reply = metadata(1, 1, [(1, "kafka-1.kafka.svc.cluster.local", 9092)], 4)
    wire.broker(reply)
    assert wire.to_client == rewritten(1, reply)
