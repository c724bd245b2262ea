"""The quota messages are read and written as the codec reads and writes them."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as CodecError

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec
from wire.apis import Api, ApiKey
from wire.client_quotas import (
    MAX_REQUEST_ELEMENTS,
    Alteration,
    AlteredEntity,
    AlterRequest,
    Component,
    DescribedEntity,
    DescribeRequest,
    alter_reply,
    describe_reply,
    read_alter,
    read_describe,
)
from wire.errors import WireError
from wire.primitives import encode_compact_count

DESCRIBE = [api_of(ApiKey.DESCRIBE_CLIENT_QUOTAS, version) for version in (0, 1)]
ALTER = [api_of(ApiKey.ALTER_CLIENT_QUOTAS, version) for version in (0, 1)]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ENTITY = st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=3).map(tuple)
NUMBER = st.floats(allow_nan=False)


@for_each(DESCRIBE, examples=100)
def test_a_filter_is_read_as_the_codec_reads_it(api: Api, data: st.DataObject) -> None:
    """The reader gives every component in order, and the strictness."""
    message = data.draw(messages_of(codec.request_shape(api)))
    told = read_describe(api, codec.encode(message))
    assert told == DescribeRequest(
        tuple(Component(c.entity_type, c.match_type, c.match) for c in message.components),
        message.strict,
    )


@for_each(ALTER, examples=100)
def test_alterations_are_read_as_the_codec_reads_them(api: Api, data: st.DataObject) -> None:
    """The reader gives entities, keys and values; the value of a removal is ignored."""
    message = data.draw(messages_of(codec.request_shape(api)))
    told = read_alter(api, codec.encode(message))
    assert told.validate_only == message.validate_only
    for mine, entry in zip(told.entries, message.entries, strict=True):
        assert mine.entity == tuple((e.entity_type, e.entity_name) for e in entry.entity)
        for (key, value), op in zip(mine.ops, entry.ops, strict=True):
            assert key == op.key
            assert (value is None) == op.remove
            assert value is None or value == op.value or math.isnan(op.value)


@pytest.mark.parametrize("api", DESCRIBE)
@given(
    st.none() | st.lists(st.tuples(ENTITY, st.lists(st.tuples(TEXT, NUMBER), max_size=4))),
    st.sampled_from([0, 31, 42, -1]),
    st.none() | TEXT,
)
def test_a_description_is_what_the_codec_writes(
    api: Api,
    entries: list[tuple[tuple[tuple[str, str | None], ...], list[tuple[str, float]]]] | None,
    code: int,
    message: str | None,
) -> None:
    """The reply equals the codec's byte for byte, in both versions."""
    rows = None if entries is None else [DescribedEntity(*entry) for entry in entries]
    body = describe_reply(api, rows, code, message)
    told = codec.decode_response(api, body)
    assert codec.encode(told) == body
    assert told.throttle_time == timedelta(0)
    assert (told.error_code, told.error_message) == (CodecError(code), message)
    seen = told.entries if told.entries is None else [plain(entry) for entry in told.entries]
    assert seen == entries


@for_each(
    ALTER,
    examples=100,
    of=st.lists(st.tuples(ENTITY, st.sampled_from([0, 31, 42, -1]), st.none() | TEXT)),
)
def test_the_reply_to_alterations_is_what_the_codec_writes(
    api: Api, entries: list[tuple[tuple[tuple[str, str | None], ...], int, str | None]]
) -> None:
    """The reply equals the codec's byte for byte, in both versions."""
    body = alter_reply(api, [AlteredEntity(*entry) for entry in entries])
    told = codec.decode_response(api, body)
    assert codec.encode(told) == body
    assert [(named(e.entity), int(e.error_code), e.error_message) for e in told.entries] == entries


def test_a_request_of_too_many_elements_is_refused() -> None:
    """A list of more elements than Kafka writes is malformed, and so are random bytes."""
    count = MAX_REQUEST_ELEMENTS + 1
    body = encode_compact_count(count) + b"\x01\x01\x00" * count + b"\x00\x00"
    with pytest.raises(WireError, match="budget"):
        read_alter(ALTER[1], body)
    with pytest.raises(WireError):
        read_describe(DESCRIBE[0], b"\xff")


def test_an_alteration_is_read_from_its_bytes() -> None:
    """One whole v0 request is read from the bytes that a Java client would write."""
    body = bytes.fromhex(
        "00000001"  # one entry
        "00000001 0004 75736572 ffff"  # of one part: the default user
        "00000002"
        "0012 70726f64756365725f627974655f72617465 40c3880000000000 00"
        "000c 726571756573745f72617465 0000000000000000 01"
        "01"
    )
    assert read_alter(ALTER[0], body) == AlterRequest(
        (Alteration((("user", None),), (("producer_byte_rate", 10000.0), ("request_rate", None))),),
        validate_only=True,
    )


def named(entity: object) -> tuple[tuple[str, str | None], ...]:
    return tuple((part.entity_type, part.entity_name) for part in entity)


def plain(entry: object) -> tuple[object, list[tuple[str, float]]]:
    return named(entry.entity), [(value.key, value.value) for value in entry.values]
