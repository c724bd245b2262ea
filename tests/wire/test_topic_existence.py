"""The question whether topics exist, and its answer."""

from uuid import UUID

import pytest
from hypothesis import strategies as st

from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of, survives
from wire import codec, metadata
from wire.apis import ApiKey
from wire.errors import BudgetError, ErrorCode, WireError
from wire.primitives import REPLY_ELEMENT_BUDGET
from wire.schema import make_message
from wire.topic_existence import (
    IDS_VERSION,
    NAMES_VERSION,
    ExistingTopic,
    existence_request,
    read_existence,
)

MISSING = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}


def answer(*, with_ids: bool, **told: tuple[int, int, int]) -> bytes:
    """A frame with topics: code, id and number of partitions by name."""
    api = api_of(ApiKey.METADATA, IDS_VERSION if with_ids else NAMES_VERSION)
    shape = codec.response_shape(api)
    item = shape.item("topics")
    topics = []
    for name, (code, topic_id, count) in told.items():
        partitions = tuple(make_message(item.item("partitions"), 0) for _ in range(count))
        values = {"name": name, "error_code": ErrorCode(code), "partitions": partitions}
        topics.append(
            make_message(item, 0, values | ({"topic_id": UUID(int=topic_id)} if with_ids else {}))
        )
    body = codec.encode(make_message(shape, 0, {"topics": tuple(topics)}))
    return f.reply(0, body, tagged=with_ids)


@pytest.mark.parametrize("with_ids", [False, True])
def test_the_question_names_the_topics_and_creates_none(*, with_ids: bool) -> None:
    """It is a Metadata that Kafka's own schema reads."""
    frame = existence_request(["a", "b.c"], with_ids=with_ids)
    api = api_of(ApiKey.METADATA, IDS_VERSION if with_ids else NAMES_VERSION)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert (frame[4:6], frame[6:8]) == (b"\0\3", bytes((0, api.version)))
    header_bytes = 4 + 8 + 2 + len(metadata.CLIENT_ID) + with_ids  # tags
    body = frame[header_bytes:]
    read = codec.decode_request(api, body)
    assert [topic.name for topic in read.topics] == ["a", "b.c"]
    assert read.allow_auto_topic_creation is False


def test_what_a_broker_does_not_tell_is_not_known() -> None:
    """A topic that is refused may exist or not; one without a leader exists."""
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    frame = answer(
        with_ids=True, a=(0, 7, 2), b=(3, 0, 0), c=(17, 0, 0), d=(refused, 0, 0), e=(5, 8, 0)
    )
    assert read_existence(frame, with_ids=True) == {
        "a": ExistingTopic(UUID(int=7).bytes, 2),
        "b": None,
        "c": None,
        "e": ExistingTopic(UUID(int=8).bytes, 0),
    }
    told = read_existence(answer(with_ids=False, a=(0, 0, 3), b=(3, 0, 0)), with_ids=False)
    assert told == {"a": ExistingTopic(bytes(16), 3), "b": None}


@for_each([False, True], examples=30)
def test_the_answer_agrees_with_the_codec(with_ids, data):
    """Names, ids and numbers of partitions equal those that the codec reads; damaged bytes raise only WireError."""
    api = api_of(ApiKey.METADATA, IDS_VERSION if with_ids else NAMES_VERSION)
    message = data.draw(messages_of(codec.response_shape(api)))
    meant = {}
    for topic in message.topics:
        if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            uuid = (topic.topic_id or UUID(int=0)) if with_ids else UUID(int=0)
            there = ExistingTopic(uuid.bytes, len(topic.partitions))
            meant[topic.name] = None if topic.error_code in MISSING else there
    frame = bytearray(f.reply(0, codec.encode(message), tagged=with_ids))
    assert read_existence(frame, with_ids=with_ids) == meant
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    survives(lambda buf: read_existence(buf, with_ids=with_ids), frame[:cut])


def test_an_answer_with_too_many_partitions_is_not_read() -> None:
    """It would take longer than other clients may wait."""
    body = bytearray(4 + 4 + 2 + 4) + b"\0\0\0\1" + b"\0\0\0\1a\0"
    body += (REPLY_ELEMENT_BUDGET + 1).to_bytes(4, "big") + bytes(18 * (REPLY_ELEMENT_BUDGET + 1))
    with pytest.raises(BudgetError):
        read_existence(f.reply(0, bytes(body)), with_ids=False)
    with pytest.raises(WireError):
        read_existence(f.reply(0, bytes(body[:-1])), with_ids=False)
