"""The error codes of a reply, by what has failed, compared with what the codec decodes."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec, reply_steps
from wire.apis import Api, ApiKey
from wire.errors import ErrorCode, WireError
from wire.reply_errors import ReplyErrors, read_errors
from wire.schema import make_message

CODES = ("error_code", "partition_error_code", "acknowledge_error_code")
NAMES = (
    "name", "topic", "topic_name", "group_id", "key", "resource_name", "transactional_id", "user", "feature",
    "member_id", "group_instance_id", "log_dir",
)  # fmt: skip
PARTITIONS = ("partition_index", "index", "partition", "partition_id")


def expected(item: object, labels: tuple, name_of: dict[bytes, str]) -> Iterator[tuple]:
    """The codes in a decoded message: (labels, code), the innermost item first."""
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            for place, each in enumerate(value):
                yield from expected(each, (*labels, label(each, place, name_of)), name_of)
    codes = [int(getattr(item, each, 0) or 0) for each in CODES]
    if any(codes):
        yield labels, next(filter(None, codes))


def label(item: object, place: int, name_of: dict[bytes, str]) -> object:
    """The partition of an item, else its first name, else its topic's id, else its place."""
    for each in PARTITIONS:
        if hasattr(item, each):
            return getattr(item, each)
    found = [
        text
        for field in fields(item)
        if field.name in NAMES and (text := getattr(item, field.name))
    ]
    topic_id = getattr(item, "topic_id", None)
    if isinstance(topic_id, UUID):
        found.append(name_of.get(topic_id.bytes, topic_id.bytes))
    return found[0] if found else place


def key_of(labels: tuple) -> object:
    return labels if len(labels) > 1 else labels[0] if labels else None


@for_each(apis_known(), examples=15)
def test_the_codes_are_those_that_the_codec_decodes(api: Api, data: st.DataObject) -> None:
    """In every API and version, for any reply."""
    body = codec.encode(data.draw(messages_of(codec.response_shape(api))))
    codes: dict[object, int] = {}
    for labels, code in expected(codec.decode_response(api, body), (), {}):
        codes.setdefault(key_of(labels), code)
    assert read_errors(api, b"ab" + body + b"z", 2, 2 + len(body), {}) == codes


@given(st.sampled_from(apis_known()), st.binary(max_size=200), st.data())
def test_bytes_that_are_no_reply_are_said_so(api: Api, noise: bytes, data: st.DataObject) -> None:
    """No bytes raise anything but WireError, and the mapping says why it is empty."""
    body = codec.encode(data.draw(messages_of(codec.response_shape(api))))
    cut = body[: data.draw(st.integers(0, len(body)))] + noise
    errors = ReplyErrors(api, cut, 0, len(cut), {})
    assert len(errors) == len(list(errors))
    if errors.unread:
        assert not errors
        with pytest.raises(WireError):
            read_errors(api, cut, 0, len(cut), {})


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\0\0\0\0 \0\0\0\1 \0\1\xff \0\5", "not valid UTF-8"),
        (b"\0\0\0\0 \0\0\0\1 \0\1a \0\5 \0", "1 bytes follow"),
        (b"\0\0\0\0 \0\0\0\1 \0\1a \0", "ends inside its fields"),
    ],
)
def test_a_malformed_reply_says_why_and_that_nothing_was_done(body: bytes, match: str) -> None:
    """Without chance, for DeleteGroups v0."""
    errors = ReplyErrors(
        api_of(ApiKey.DELETE_GROUPS, 0),
        body.replace(b" ", b""),
        0,
        len(body) - body.count(b" "),
        {},
    )
    assert match in errors.unread
    assert (dict(errors), errors.done()) == ({}, [])


def encoded(api: Api, item: dict[str, object], array: str) -> bytes:
    """A reply with one item in this array."""
    shape = codec.response_shape(api)
    field = shape.field(array)
    assert field is not None
    assert field.shape is not None
    return codec.encode(make_message(shape, 0, {array: (make_message(field.shape, 0, item),)}))


def test_a_topic_id_becomes_its_name_or_stays_an_id() -> None:
    """The name that a Metadata reply has told; else the 16 bytes."""
    api, topic = api_of(ApiKey.DELETE_TOPICS, 6), UUID(int=7)
    item = {"topic_id": topic, "error_code": ErrorCode.UNKNOWN_TOPIC_ID}
    body = encoded(api, item, "responses")
    assert read_errors(api, body, 0, len(body), {topic.bytes: "orders"}) == {"orders": 100}
    assert read_errors(api, body, 0, len(body), {}) == {topic.bytes: 100}


def test_a_reply_is_not_read_after_its_hook_has_returned() -> None:
    """Its bytes may be others by then; what was read before stays."""
    api = api_of(ApiKey.CREATE_PARTITIONS, 3)
    body = encoded(api, {"name": "orders", "error_code": ErrorCode.INVALID_PARTITIONS}, "results")
    early, late = (ReplyErrors(api, body, 0, len(body), {}) for _ in range(2))
    assert dict(early) == {"orders": 37}
    early.close()
    late.close()
    assert (dict(early), early.unread) == ({"orders": 37}, "")
    assert (dict(late), late.unread) == ({}, "it was read after its hook had returned")


def test_a_version_that_the_codec_does_not_know_is_said_so() -> None:
    """The reply passes; its errors are not known."""
    errors = ReplyErrors(api_of(ApiKey.CREATE_ACLS, 0), b"\0" * 8, 0, 8, {})
    assert (len(errors), errors.unread) == (0, "the codec does not know CreateAcls v0")
    assert "does not know" in repr(errors)


def test_a_broker_cannot_make_the_read_endless() -> None:
    """A reply beyond the element budget is not read."""
    api = api_of(ApiKey.DELETE_GROUPS, 0)
    body = b"\0" * 4 + (3).to_bytes(4, "big") + (b"\0\x01a" + b"\0\x05") * 3
    assert read_errors(api, body, 0, len(body), {}, budget=3) == {"a": 5}
    with pytest.raises(WireError, match="budget"):
        read_errors(api, body, 0, len(body), {}, budget=2)


def test_the_code_that_reads_a_reply_is_made_once_and_early():
    """A version that the codec does not know is left alone."""
    reply_steps.steps_of.cache_clear()
    api = api_of(ApiKey.CREATE_TOPICS, 7)
    for each in (api, api_of(ApiKey.CREATE_TOPICS, 0)):
        reply_steps.prepare(each)
    made = reply_steps.steps_of.cache_info().misses
    assert made >= 1

    steps = reply_steps.steps_of(codec.response_shape(api))
    assert [step.kind for step in steps.steps] == ["other", "items"]
    assert reply_steps.steps_of.cache_info().misses == made
