"""Topics and groups are cut out of replies: what is left is what the codec would leave."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import count, product

import pytest
from hypothesis import strategies as st

from policies import messages
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, name, survives
from tests.support.messages.shown_listings import shown
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey
from wire.authorization import Operation, ResourceType
from wire.errors import ErrorCode, WireError
from wire.listing_cuts import LISTED, cut, cutting, layout_of_reply, nothing
from wire.listing_view import View
from wire.request_layouts import names_anything
from wire.schema import Shape

READ = [api for api in apis_known() if api.key in LISTED]
_NAMES = ("name", "topic_name", "topic", "group_id", "resource_name")


def shows(kind: ResourceType, name: str, operation: Operation) -> bool:
    """What the client may see: topics of an even length, short groups, and so on."""
    if kind == ResourceType.GROUP:
        return len(name) < 100
    if operation == Operation.DESCRIBE_CONFIGS:
        return len(name) % 3 != 0
    return len(name) % 2 == 0


VIEW = View(
    shows,
    lambda kind, name: kind * len(name),
    0x5A5,
    lambda topic_id: f"{topic_id[0]}" if topic_id[1] % 2 else None,
    lambda name: f"{name}+" if len(name) > 3 else None,
)


def name_fields(shape: Shape) -> Iterator[str]:
    """Yield the fields of a reply that are, or may be, the name of a topic or a group."""
    for field in (*shape.untagged, *shape.tagged.values()):
        if field.shape is not None:
            yield from name_fields(field.shape)
        elif field.name in _NAMES or field.python_type.__name__ in {"TopicName", "GroupId"}:
            yield field.name


def test_a_reply_that_names_what_its_request_does_not_is_a_listing() -> None:
    """No policy can judge such a request by its names: it has to cut the reply."""
    naming = {api.key for api in apis_known() if any(name_fields(codec.response_shape(api)))}
    features = {ApiKey.API_VERSIONS}

    assert {key for key in naming if not names_anything(key)} - features <= LISTED


def test_every_version_has_a_layout() -> None:
    """Versions that the codec does not know are those of old clients, cut by the same lines."""
    listed = {api for api in BY_KEY_AND_VERSION.values() if api.key in LISTED}
    assert all(layout_of_reply(api) is not None for api in listed)
    assert {name(api) for api in listed if not codec.is_known(api)} == {
        "OffsetFetch-v0", "DescribeAcls-v0", "DescribeConfigs-v0", "DescribeLogDirs-v0",
        "CreateTopics-v0", "CreateTopics-v1", "ShareGroupDescribe-v0",
    }  # fmt: skip


def in_turns(api: Api, body: bytes, view: View) -> tuple[bytes | None, int]:
    """Return what `cutting` returns, and how often it paused."""
    steps = cutting(api, body, view)
    for number in count():
        try:
            next(steps)
        except StopIteration as end:
            return end.value, number
    raise AssertionError


@for_each(READ, examples=20)
def test_a_reply_is_shown_as_the_message_would_be(api: Api, data: st.DataObject) -> None:
    """For any reply: in every version, with counts of any size, and nothing else changes."""
    message = data.draw(messages_of(codec.response_shape(api)))
    view = VIEW._replace(asks_by_id=data.draw(st.booleans()))
    body = codec.encode(message)
    after = cut(api, body, view)
    wanted = shown(api, message, view)
    assert (body if after is None else after) == codec.encode(wanted)
    assert in_turns(api, body, view)[0] == after


@for_each(READ, examples=20)
def test_any_bytes_are_cut_or_a_wire_error(api: Api, data: st.DataObject) -> None:
    """A part of a reply is never taken for all of it."""
    body = codec.encode(data.draw(messages_of(codec.response_shape(api))))
    size = data.draw(st.integers(0, len(body)))
    with pytest.raises(WireError):
        cut(api, body[:size] if size < len(body) else body + b"\0", VIEW)
    at, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    survives(cut, api, body[:at] + bytes([byte]) + body[at + 1 :], VIEW)


ALL = View(lambda *_: True, name_of=lambda _: "name")
NONE = View(lambda *_: False, name_of=lambda _: "name")


@for_each([*product([1, 8, 9, 12, 13], [1, 126, 127, 128]), (12, 20_000)])
def test_long_lists_are_counted_again(version: int, size: int) -> None:
    """A compact count has one byte up to 126, then more. A list of many elements is cut with pauses."""
    api = api_of(ApiKey.METADATA, version)
    topics = [{"name": f"t{n}", "partitions": [{"replica_nodes": [1, 2]}] * 2} for n in range(size)]
    body = messages.encode(messages.make_response(api, {"topics": topics}))
    assert cut(api, body, ALL) is None
    none = messages.encode(messages.make_response(api, {"topics": []}))
    assert cut(api, body, NONE) == none
    first = cut(api, body, VIEW._replace(allows=lambda _, name, __: name == "t0"))
    wanted = messages.encode(messages.make_response(api, {"topics": topics[:1]}))
    assert first == (None if size == 1 else wanted)
    cut_, pauses = in_turns(api, body, NONE)
    assert cut_ == none
    assert pauses >= size // 512


@pytest.mark.parametrize(
    ("key", "body", "after"),
    [
        (ApiKey.OFFSET_FETCH, "00000001 0003 616263 00000000", "00000000"),
        (
            ApiKey.DESCRIBE_CONFIGS,
            "00000000 00000001 0000 ffff 02 0003 616263 00000001 0001 61 ffff 01 00 00",
            "00000000 00000001 001d ffff 02 0003 616263 00000000",
        ),
        (
            ApiKey.DESCRIBE_ACLS,
            "00000000 0000 ffff 00000001 02 0003 616263 00000001 0001 61 0001 62 01 02",
            "00000000 0000 ffff 00000000",
        ),
        (
            ApiKey.DESCRIBE_LOG_DIRS,
            "00000000 00000001 0000 0001 2f 00000001 0003 616263 00000000",
            "00000000 00000001 0000 0001 2f 00000000",
        ),
    ],
)
def test_version_0_of_old_clients_is_cut(key: ApiKey, body: str, after: str) -> None:
    """By hand, as Kafka 3.9 defines them: the codec does not know them."""
    assert cut(api_of(key, 0), bytes.fromhex(body), VIEW) == bytes.fromhex(after)


def test_a_refused_topic_stays() -> None:
    """The client has asked for it; it must see the error."""
    api = api_of(ApiKey.METADATA, 12)
    fields = {"topics": [{"name": "odd", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}]}
    body = messages.encode(messages.make_response(api, fields))
    assert cut(api, body, VIEW) is None


def test_a_reply_that_is_no_listing_is_not_read() -> None:
    """It is a mistake of the caller, and never a listing that passes."""
    with pytest.raises(WireError, match="no listing"):
        cut(api_of(ApiKey.HEARTBEAT, 4), b"", VIEW)


@for_each(READ)
def test_a_reply_can_list_nothing(api: Api) -> None:
    """Its code stands where the API has one; old versions without a place for it list nothing and say no more."""
    reply = codec.decode_response(api, nothing(api, ErrorCode.UNKNOWN_SERVER_ERROR))
    lists = [getattr(reply, field.name) for field in fields(reply)]
    assert not any(each for each in lists if isinstance(each, tuple))
    assert int(getattr(reply, "error_code", -1)) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_version_0_can_list_nothing() -> None:
    """As above, by hand."""
    found = {key: nothing(api_of(key, 0), -1).hex() for key in (9, 29, 32, 35)}
    assert found == {9: "0" * 8, 29: "0" * 8 + "ffff" + "0" * 12, 32: "0" * 16, 35: "0" * 16}
