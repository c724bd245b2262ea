"""Shapes read from the codec's classes, and the check that must pass before decoding."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from kio.schema.consumer_group_heartbeat.v0.response import ConsumerGroupHeartbeatResponse
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.produce.v12.response import ProduceResponse

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import apis_known, messages_of, structs, survives
from wire import codec
from wire.errors import WireError
from wire.schema import Shape, check, make_message, shape_of

BUDGET = 20_000


@for_each(apis_known(), examples=2)
def test_check_walks_what_the_codec_writes(api, data):
    """Any message of any API is walked to its last byte, and no byte further."""
    for shape in (codec.request_shape(api), codec.response_shape(api)):
        body = codec.encode(data.draw(messages_of(shape)))
        assert check(shape, body + b"\x01stale", 0, len(body), BUDGET)[0] == len(body)
        cut = data.draw(st.integers(0, len(body)))
        if cut < len(body):
            assert not survives(check, shape, body, 0, cut, BUDGET)


def test_a_count_that_cannot_fit_is_refused():
    """The codec would exhaust the process's memory over it."""
    for count in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(WireError):
            check(shape_of(MetadataResponse), bytes(4) + count, 0, 9, BUDGET)


def test_tags_are_checked():
    """Unknown tags pass, known ones must fill their size, and tags ascend."""
    shape = shape_of(ProduceResponse)
    head = b"\x01" + bytes(4)
    assert check(shape, head + b"\x01\x63\x02ab", 0, 10, BUDGET)[0] == 10
    for tags in (b"\x01\x00\x02\x01\x00", b"\x02\x05\x00\x05\x00", b"\x41", b"\x01\x00\x01\x02"):
        with pytest.raises(WireError):
            check(shape, head + tags, 0, len(head + tags), BUDGET)


def test_a_nullable_struct_has_a_marker():
    """A nullable struct begins with a marker byte, -1 for null."""
    shape = shape_of(ConsumerGroupHeartbeatResponse)
    head = bytes(4) + b"\x00\x00" + b"\x00" + b"\x00" + bytes(4) + bytes(4)
    assert check(shape, head + b"\xff\x00", 0, len(head) + 2, BUDGET)[0] == len(head) + 2
    whole = head + b"\x01" + b"\x01\x00" + b"\x00"
    assert check(shape, whole, 0, len(whole), BUDGET)[0] == len(whole)


def test_a_blank_message_holds_only_the_code_and_the_given_text():
    """All its other fields are empty; no other code is put in the place of an unknown one."""
    message = make_message(shape_of(HeartbeatResponse), 35)
    assert message == HeartbeatResponse(
        throttle_time=timedelta(0), error_code=type(message.error_code)(35)
    )
    said = make_message(shape_of(MetadataResponse), 3, {"cluster_id": "c"})
    assert (said.cluster_id, said.brokers, said.topics) == ("c", (), ())

    with pytest.raises(WireError):
        make_message(shape_of(HeartbeatResponse), 12345)


@for_each(apis_known())
def test_every_blank_can_be_encoded(api):
    """The codec writes and reads a blank message of every request and response, and of each struct in it."""
    for shape, decode in (
        (codec.request_shape(api), codec.decode_request),
        (codec.response_shape(api), codec.decode_response),
    ):
        message = make_message(shape, 42)
        assert next(structs(message)) is message
        assert type(decode(api, codec.encode(message))) is shape.type_
        for each in nested_in(shape):
            assert codec.encode(make_message(each, 42))


def test_a_class_that_is_none_of_the_codecs_has_no_shape():
    """A later codec may have field types that are not known here; it is noticed before any body is read."""

    @dataclass
    class Stranger:
        name: int | str

    with pytest.raises(TypeError, match="field name has the type"):
        shape_of(Stranger)


def nested_in(shape: Shape) -> Iterator[Shape]:
    """Every struct in a message of this shape."""
    for field in (*shape.untagged, *shape.tagged.values()):
        if field.shape is not None:
            yield field.shape
            yield from nested_in(field.shape)
