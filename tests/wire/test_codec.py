"""`wire.codec` converts any API's bodies to objects and back, and raises only WireError."""

import subprocess
import sys

import pytest
from hypothesis import strategies as st
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, survives
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.primitives import array_count, compact_count
from wire.schema import FieldShape, Shape, check_value
from wire.varint import encode_uvarint, uvarint


@for_each(apis_known(), examples=2)
def test_an_encoded_message_is_decoded(api, data):
    """Every version that the codec knows makes the round trip; bytes after a request are ignored, as by a broker."""
    request = data.draw(messages_of(codec.request_shape(api)))
    assert codec.decode_request(api, bytearray(codec.encode(request))) == request
    assert codec.decode_request(api, codec.encode(request) + b"\x00\xff") == request
    response = data.draw(messages_of(codec.response_shape(api)))
    assert codec.decode_response(api, codec.encode(response)) == response


@for_each(apis_known(), examples=2)
def test_damage_is_a_wire_error(api, data):
    """An overwritten, cut or lengthened body is decoded or refused, and never ends the process."""
    for shape, decode in (
        (codec.request_shape(api), codec.decode_request),
        (codec.response_shape(api), codec.decode_response),
    ):
        body = bytearray(codec.encode(data.draw(messages_of(shape))))
        places = st.tuples(st.integers(0, len(body) - 1), st.sampled_from([0, 1, 127, 128, 255]))
        for at, byte in data.draw(st.lists(places, max_size=6)) if body else ():
            body[at] = byte
        survives(decode, api, bytes(body))
        survives(decode, api, bytes(body[: data.draw(st.integers(0, len(body)))]))
    longer = codec.encode(data.draw(messages_of(codec.response_shape(api)))) + b"\x00"
    assert not survives(codec.decode_response, api, longer)


def test_a_version_unknown_to_the_codec_is_a_wire_error():
    """Produce v0 is offered but unknown to the codec: it raises WireError, and `is_known` is false."""
    api = api_of(ApiKey.PRODUCE, 0)
    assert not codec.is_known(api)
    for call in (codec.decode_request, codec.decode_response):
        with pytest.raises(WireError, match="Produce v0"):
            call(api, b"")
    assert codec.is_known(api_of(ApiKey.PRODUCE, 3))


def test_a_value_of_the_wrong_kind_is_a_wire_error():
    """A message that cannot be encoded raises WireError, not the codec's own exception."""
    with pytest.raises(WireError):
        codec.encode(HeartbeatResponse(throttle_time="soon", error_code=0))
    with pytest.raises(WireError):
        codec.encode("no message")


def test_the_codec_is_imported_late():
    """Importing `wire.codec` does not import kio, so that start-up does not pay for it."""
    code = "import sys, wire.codec, wire.replies; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_codec_can_be_loaded_ahead_of_the_first_message():
    """`prepare` imports the codec, so that a first refusal does not wait for it (seen in a process of its own)."""
    code = """import sys; from wire import codec; assert "kio" not in sys.modules
codec.prepare(); assert "kio.index" in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)


STRANGER = 10_341


def with_strangers(shape: Shape, body: bytes, pos: int, out: bytearray) -> int:
    """Copy a struct and put a tag that no class knows after the tags of every struct in it."""
    for field in shape.untagged:
        pos = with_strangers_in(field, shape.is_flexible, body, pos, out)
    if not shape.is_flexible:
        return pos
    count, pos = uvarint(body, pos, len(body))
    out += encode_uvarint(count + 1)
    for _ in range(count):
        tag, pos = uvarint(body, pos, len(body))
        size, pos = uvarint(body, pos, len(body))
        content = bytearray()
        with_strangers_in(shape.tagged[tag], True, body, pos, content)
        out += encode_uvarint(tag) + encode_uvarint(len(content)) + content
        pos += size
    out += encode_uvarint(STRANGER) + b"\x03???"
    return pos


def with_strangers_in(
    field: FieldShape, flexible: object, body: bytes, pos: int, out: bytearray
) -> int:
    end = len(body)
    count = 1
    if field.is_array:
        count, after = (compact_count if flexible else array_count)(body, pos, end)
        out += body[pos:after]
        pos = after
    elif field.shape is not None and field.is_nullable:
        out.append(body[pos])
        pos += 1
        count = body[pos - 1] != 0xFF
    for _ in range(count):
        if field.shape is not None:
            pos = with_strangers(field.shape, body, pos, out)
        else:
            after, _ = check_value(field, bool(flexible), body, pos, end, 1 << 20)
            out += body[pos:after]
            pos = after
    return pos


FLEXIBLE = [api for api in apis_known() if api.flexible]


@for_each(FLEXIBLE, examples=2)
def test_a_body_with_tags_of_the_future_is_decoded_as_without(api, data):
    """Requests and replies of every flexible API and version decode alike with an unknown tag in each struct."""
    for shape, decode in (
        (codec.request_shape(api), codec.decode_request),
        (codec.response_shape(api), codec.decode_response),
    ):
        message = data.draw(messages_of(shape))
        body = codec.encode(message)
        strange = bytearray()
        with_strangers(shape, body, 0, strange)
        assert len(strange) > len(body)
        assert decode(api, strange) == message
