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
from wire.fetch import (
    FetchHead,
    FetchKind,
    ShareFetchHead,
    empty_reply,
    head_offsets,
    read_share_head,
)
from wire.primitives import INT32, encode_compact

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


@pytest.mark.parametrize(
    ("session_id", "epoch", "kind"),
    [
        (0, -1, FetchKind.SESSIONLESS),
        (0, 0, FetchKind.FULL),
        (123, 0, FetchKind.FULL),
        (123, 2, FetchKind.INCREMENTAL),
        (123, -1, FetchKind.CLOSE),
    ],
)
def test_sess_kinds(session_id, epoch, kind):
    """The session id and its epoch say what a fetch asks of its session."""
    assert FetchHead(0, 0, session_id=session_id, session_epoch=epoch).kind is kind


def test_sess_throttled():
    """The answer to any fetch that was not forwarded has error 0, no partitions, the throttle and session 0.

    A broker would keep the session of an incremental fetch and advance its epoch; Sluice cannot do that.
    """
    reply = throttled()
    assert (reply.error_code, reply.throttle_time_ms, reply.responses) == (0, 100, [])
    assert reply.session_id == 0


@pytest.mark.parametrize(
    ("sent", "reply", "accepts", "sends_next"),
    [
        ((0, 0), throttled(throttle_time_ms=10), False, (0, 0)),
        ((123, 4), throttled(), True, (0, 0)),
        ((123, 1), failed(70), False, (0, 0)),
        *(((123, 1), failed(code), False, (123, 0)) for code in (100, 71, 106)),
    ],
)
def test_sess_client(sent, reply, accepts, sends_next):
    """Sluice's empty reply, or an unknown session id, makes the next fetch (0, 0); any other error (S, 0): full."""
    assert after(client(*sent), reply) == (accepts, sends_next)


def test_sess_proxy_swallow():
    """If Sluice's own answer kept S, the client would send (123, 5) to a broker that still expects 4.

    Sluice's reply makes the next fetch (0, 0) instead, which no broker can refuse.
    """
    kept = throttled()
    kept.session_id = 123
    assert after(client(123, 4), kept) == (True, (123, 5))
    assert after(client(123, 4), throttled()) == (True, (0, 0))


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


def test_fields_lie_where_kafka_puts_them_and_missing_ones_have_its_defaults():
    """max_wait_ms lies at 4, and at 0 from v15 on. Before v3 there is no max_bytes, and before v7 no session."""
    case = cases("wire")["wire-fetch-request-maxwait"]
    for version, offset in zip(case["versions"], case["offsets"], strict=True):
        assert head_offsets(version).max_wait_ms == offset

    head = fetch.read_head(bytes(12), 0, 12, 0)
    assert (head.max_bytes, head.isolation_level) == (0x7FFFFFFF, 0)
    assert head.kind is FetchKind.SESSIONLESS

    low, high = OFFERED[ApiKey.FETCH]
    assert set(range(low, high + 1)) <= set(VERSIONS)


FIELDS = (500, 1, 50_000)
NAMES = encode_compact(b"a-group") + encode_compact(b"m" * 200)
BODY = NAMES + b"".join(each.to_bytes(4, "big") for each in (7, *FIELDS)) + b"\x01" * 9


@pytest.mark.parametrize("start", [0, 5])
def test_the_fields_of_a_share_fetch_are_read_after_both_names(start: int) -> None:
    """The offsets count from the body's start, wherever it is in the buffer."""
    head = read_share_head(bytes(start) + BODY, start, start + len(BODY))
    at = len(NAMES) + 4
    assert head == ShareFetchHead(*FIELDS, at + 4, at + 8)
    assert BODY[head.max_bytes_at : head.max_bytes_at + 4] == (50_000).to_bytes(4, "big")


def test_a_null_name_has_no_bytes() -> None:
    """The offsets are those of its one byte of length."""
    head = read_share_head(b"\0\0" + BODY[len(NAMES) :], 0, 18)
    assert head == ShareFetchHead(*FIELDS, 10, 14)


def test_a_share_head_that_is_not_whole_is_none() -> None:
    """Bytes after the end belong to another frame; the session refuses a frame whose name cannot end."""
    whole = len(NAMES) + 16
    assert read_share_head(BODY, 0, whole) is not None
    assert all(read_share_head(BODY, 0, end) is None for end in range(whole))

    assert read_share_head(b"\xff" * 40, 0, 40) is None
