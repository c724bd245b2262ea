"""Fetch heads, and the rules of fetch sessions that a proxy can keep.

Only a broker can show how it treats its own sessions. What a client does with a reply is asked of a real client,
kafka-python's `FetchSessionHandler`.
"""

from datetime import timedelta

import pytest
from kafka.consumer.fetcher import FetchMetadata, FetchSessionHandler
from kafka.protocol.consumer import FetchResponse
from kafka.structs import TopicPartition

from tests.support.messages.every_case import for_each
from tests.support.messages.golden import cases
from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec, fetch
from wire.apis import OFFERED, ApiKey
from wire.errors import WireError
from wire.fetch import FetchHead, FetchKind, empty_reply, head_offsets
from wire.primitives import INT32

VERSIONS = range(19)


def client(session_id: int, epoch: int) -> FetchSessionHandler:
    """Return a kafka-python client that has just sent a fetch with this session id and epoch."""
    handler = FetchSessionHandler(1)
    handler.next_metadata = FetchMetadata(session_id, epoch)
    handler.build_next({TopicPartition("orders", 0): None})
    return handler


def after(handler: FetchSessionHandler, response: FetchResponse) -> tuple[bool, tuple[int, int]]:
    """Return whether the client accepts the response, and the (id, epoch) of its next fetch."""
    taken = bool(handler.handle_response(response))
    return taken, (handler.next_metadata.session_id, handler.next_metadata.epoch)


def failed(error_code: int) -> FetchResponse:
    return FetchResponse(
        version=12, throttle_time_ms=0, error_code=error_code, session_id=0, responses=[]
    )


def throttled(version: int = 12, throttle_time_ms: int = 100) -> FetchResponse:
    """Return Sluice's own empty reply, as kafka-python reads it."""
    body = empty_reply(api_of(ApiKey.FETCH, version), throttle_time_ms)
    return FetchResponse.decode(body, version=version)


def test_sess_sessionless():
    """A fetch with (0, -1) asks for no session, and Sluice's answer to it names none."""
    assert FetchHead(0, 0, session_id=0, session_epoch=-1).kind is FetchKind.SESSIONLESS
    assert throttled().session_id == 0


def test_sess_throttled_incremental():
    """The answer to an incremental fetch that was not forwarded
    has error 0, no partitions, the throttle and session 0.

    A broker would keep S and advance its epoch to 3; Sluice cannot advance the broker's epoch.
    """
    assert FetchHead(0, 0, session_id=123, session_epoch=2).kind is FetchKind.INCREMENTAL
    reply = throttled()
    assert (reply.error_code, reply.throttle_time_ms, reply.responses) == (0, 100, [])
    assert reply.session_id == 0


def test_sess_throttled_full():
    """A throttled full fetch is answered with session id 0: no session was created."""
    assert FetchHead(0, 0, session_id=0, session_epoch=0).kind is FetchKind.FULL
    reply = throttled()
    assert (reply.error_code, reply.session_id, reply.responses) == (0, 0, [])


def test_sess_client_full_throttled():
    """A client that gets Sluice's empty reply to a full fetch sends a full fetch again."""
    assert after(client(0, 0), throttled(throttle_time_ms=10)) == (False, (0, 0))


def test_sess_client_incremental_closed_by_server():
    """A client in a session takes Sluice's empty reply as the end of the session; its next fetch is full."""
    assert after(client(123, 4), throttled()) == (True, (0, 0))


def test_sess_client_error_70():
    """An unknown session id makes the client start a new session with (0, 0)."""
    assert after(client(123, 1), failed(70)) == (False, (0, 0))


@pytest.mark.parametrize("error_code", [100, 71, 106])
def test_sess_client_error_other(error_code):
    """Any other error makes the client close its session and ask for a new one: (S, 0), full."""
    assert after(client(123, 1), failed(error_code)) == (False, (123, 0))
    assert FetchHead(0, 0, session_id=123, session_epoch=0).kind is FetchKind.FULL


def test_sess_proxy_swallow():
    """If Sluice's own answer kept S, the client would send (123, 5) to a broker that still expects 4.

    Sluice's reply makes the next fetch (0, 0) instead, which no broker can refuse.
    """
    kept = throttled()
    kept.session_id = 123
    assert after(client(123, 4), kept) == (True, (123, 5))
    assert after(client(123, 4), throttled()) == (True, (0, 0))


def test_closing_a_session():
    """A fetch with (S, -1) closes the session, and the answer to it names none."""
    assert FetchHead(0, 0, session_id=123, session_epoch=-1).kind is FetchKind.CLOSE


@for_each(range(1, 19))
def test_empty_reply_in_every_version(version):
    """The codec reads the empty reply as: throttled, no error, no session, no topic."""
    api = api_of(ApiKey.FETCH, version)
    body = empty_reply(api, 2500)
    if not codec.is_known(api):  # v1 to v3: throttle, topics
        assert body == INT32.pack(2500) + INT32.pack(0)
        return
    reply = codec.decode_response(api, body)
    assert reply.throttle_time == timedelta(milliseconds=2500)
    assert reply.responses == ()
    assert not getattr(reply, "error_code", 0)
    assert getattr(reply, "session_id", 0) == 0


def test_empty_reply_needs_a_throttle():
    """Without a throttle a client would count an empty reply as a broker's fault; v0 has no throttle field."""
    with pytest.raises(WireError):
        empty_reply(api_of(ApiKey.FETCH, 12), 0)
    with pytest.raises(WireError):
        empty_reply(api_of(ApiKey.FETCH, 0), 100)
    with pytest.raises(WireError):
        empty_reply(api_of(ApiKey.METADATA, 12), 100)


@for_each(range(4, 19), examples=20)
def test_head_agrees_with_the_codec(version, data):
    """The head's fields equal those that the codec reads, and are None until all of them have been read."""
    message = data.draw(messages_of(codec.request_shape(api_of(ApiKey.FETCH, version))))
    body = codec.encode(message)
    head = fetch.read_head(b"xx" + body, 2, 2 + len(body), version)
    assert timedelta(milliseconds=head.max_wait_ms) == message.max_wait
    assert (head.min_bytes, head.max_bytes) == (message.min_bytes, message.max_bytes)
    assert head.isolation_level == message.isolation_level
    if version >= 7:
        assert (head.session_id, head.session_epoch) == (message.session_id, message.session_epoch)
    else:
        assert head.kind is FetchKind.SESSIONLESS
    offsets = head_offsets(version)
    fixed = (offsets.session_epoch or offsets.isolation_level) + (4 if version >= 7 else 1)
    assert fetch.read_head(body, 0, fixed, version) == head
    assert all(fetch.read_head(body, 0, cut, version) is None for cut in range(fixed))


@for_each(VERSIONS)
def test_patches_land_in_their_fields(version):
    """A value written at a field's offset is read back as that field, and no other field changes."""
    plain = bytes(40)
    for name in ("max_wait_ms", "min_bytes", "max_bytes", "session_id", "session_epoch"):
        at = getattr(head_offsets(version), name)
        if at is None:
            continue
        patched = bytearray(plain)
        patched[at : at + 4] = INT32.pack(77)
        changed = fetch.read_head(patched, 0, 40, version)
        assert getattr(changed, name) == 77
        assert changed._replace(**{name: 0}) == fetch.read_head(plain, 0, 40, version)


def test_max_wait_ms_lies_where_kafka_puts_it():
    """It lies at offset 4, after the replica id, and at 0 from v15 on."""
    case = cases("wire")["wire-fetch-request-maxwait"]
    for version, offset in zip(case["versions"], case["offsets"], strict=True):
        assert head_offsets(version).max_wait_ms == offset


def test_missing_fields_have_kafkas_defaults():
    """Before v3 there is no max_bytes, and before v7 no session; Kafka's defaults stand for them."""
    head = fetch.read_head(bytes(12), 0, 12, 0)
    assert (head.max_bytes, head.isolation_level) == (0x7FFFFFFF, 0)
    assert head.kind is FetchKind.SESSIONLESS


def test_every_offered_version_is_covered():
    """The tests above cover every version that a client may use."""
    low, high = OFFERED[ApiKey.FETCH]
    assert set(range(low, high + 1)) <= set(VERSIONS)
