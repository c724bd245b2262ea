"""Tags that the codec does not know are dropped at every level; everything else is kept."""

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import apis_known, messages_of
from wire import codec
from wire.primitives import array_count, compact_count
from wire.schema import FieldShape, Shape, check_value
from wire.varint import encode_uvarint, uvarint

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
