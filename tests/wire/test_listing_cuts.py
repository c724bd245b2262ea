"""Topics and groups are cut out of replies: what is left is what the codec would leave."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import product

import pytest
from hypothesis import strategies as st

from policies import messages
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, name, survives
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey
from wire.errors import ErrorCode, WireError
from wire.listing_cuts import LISTED, Keeps, cut, layout_of_reply, nothing
from wire.request_layouts import names_anything
from wire.schema import Shape

READ = [api for api in apis_known() if api.key in LISTED]
_REFUSALS = {29, 30}
_NAMES = ("name", "topic_name", "topic", "group_id", "resource_name")


def even(name: str) -> bool:
    """Topics that stay have names of an even length."""
    return len(name) % 2 == 0


def short(name: str) -> bool:
    """Groups that stay have short names."""
    return len(name) < 100


KEEPS = Keeps(even, short, lambda topic_id: f"{topic_id[0]}" if topic_id[1] % 2 else None)


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
    }  # fmt: skip


REFUSABLE = {
    "MetadataResponseTopic", "DescribeConfigsResult", "DescribeTopicPartitionsResponseTopic",
    "OffsetFetchResponseTopic", "OffsetFetchResponseTopics", "OffsetFetchResponseGroup",
    "DescribeShareGroupOffsetsResponseGroup", "DescribeShareGroupOffsetsResponseTopic",
}  # fmt: skip
"""The classes of items that stay if the reply says that they are refused."""


def parts_of(item: object) -> tuple[object, ...]:
    """Return the partitions of a topic in a list of offsets; none of any other item."""
    is_listed = type(item).__name__.startswith(("OffsetFetch", "DescribeShareGroupOffsets"))
    return getattr(item, "partitions", ()) if is_listed else ()


def stays(item: object) -> bool:
    """Whether this element of an array stays."""
    if type(item).__name__ in REFUSABLE and any(
        int(getattr(each, "error_code", 0)) in _REFUSALS for each in (item, *parts_of(item))
    ):
        return True
    kind = int(getattr(item, "resource_type", 0))
    if hasattr(item, "resource_type"):
        named = item.resource_name
        groups = 3 if hasattr(item, "acls") else 32
        return even(named) if kind == 2 else short(named) if kind == groups else True
    if hasattr(item, "group_id"):
        return short(item.group_id)
    named = next((getattr(item, each) for each in _NAMES[:3] if hasattr(item, each)), None)
    by_id = None
    if hasattr(item, "topic_id"):
        topic_id = item.topic_id
        by_id = KEEPS.name_of(bytes(16) if topic_id is None else topic_id.bytes)
        if not any(hasattr(item, each) for each in _NAMES[:3]):
            return by_id is not None and even(by_id)
    named = by_id if named is None else named
    return named is None or even(named)


NAMED = {
    "MetadataResponseTopic", "OffsetFetchResponseTopic", "OffsetFetchResponseTopics",
    "OffsetFetchResponseGroup", "ListedGroup", "DescribeAclsResource", "DescribeConfigsResult",
    "DescribeLogDirsTopic", "OngoingTopicReassignment", "TopicData", "ConfigResource",
    "DescribeTopicPartitionsResponseTopic", "DescribeShareGroupOffsetsResponseGroup",
    "DescribeShareGroupOffsetsResponseTopic",
}  # fmt: skip
"""The classes of items that are cut."""


def filtered(value: object) -> object:
    """The message without the items that do not stay."""
    if isinstance(value, tuple):
        kept = [each for each in value if type(each).__name__ not in NAMED or stays(each)]
        return tuple(filtered(each) for each in kept)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: filtered(getattr(value, f.name)) for f in fields(value)})
    return value


@for_each(READ, examples=20)
def test_a_cut_reply_is_the_filtered_message(api: Api, data: st.DataObject) -> None:
    """For any reply: in every version, with counts of any size, and nothing else changes."""
    message = data.draw(messages_of(codec.response_shape(api)))
    body = codec.encode(message)
    after = cut(api, body, KEEPS)
    wanted = filtered(message)
    if after is None:
        assert wanted == message
    else:
        assert after == codec.encode(wanted)
        assert after != body


@for_each(READ, examples=20)
def test_any_bytes_are_cut_or_a_wire_error(api: Api, data: st.DataObject) -> None:
    """A part of a reply is never taken for all of it."""
    body = codec.encode(data.draw(messages_of(codec.response_shape(api))))
    size = data.draw(st.integers(0, len(body)))
    with pytest.raises(WireError):
        cut(api, body[:size] if size < len(body) else body + b"\0", KEEPS)
    at, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    survives(cut, api, body[:at] + bytes([byte]) + body[at + 1 :], KEEPS)


ALL = Keeps(lambda _: True, lambda _: True, lambda _: "name")
NONE = Keeps(lambda _: False, lambda _: False, lambda _: "name")


@for_each([*product([1, 8, 9, 12, 13], [1, 126, 127, 128]), (12, 20_000)])
def test_long_lists_are_counted_again(version: int, count: int) -> None:
    """A compact count has one byte up to 126, then more."""
    api = api_of(ApiKey.METADATA, version)
    topics = [
        {"name": f"t{n}", "partitions": [{"replica_nodes": [1, 2]}] * 2} for n in range(count)
    ]
    body = messages.encode(messages.make_response(api, {"topics": topics}))
    assert cut(api, body, ALL) is None
    none = messages.encode(messages.make_response(api, {"topics": []}))
    assert cut(api, body, NONE) == none
    first = cut(api, body, KEEPS._replace(topic="t0".__eq__))
    wanted = messages.encode(messages.make_response(api, {"topics": topics[:1]}))
    assert first == (None if count == 1 else wanted)


@pytest.mark.parametrize(
    ("key", "body", "after"),
    [
        (ApiKey.OFFSET_FETCH, "00000001 0003 616263 00000000", "00000000"),
        (
            ApiKey.DESCRIBE_CONFIGS,
            "00000000 00000001 0000 ffff 02 0003 616263 00000001 0001 61 ffff 01 00 00",
            "00000000 00000000",
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
    assert cut(api_of(key, 0), bytes.fromhex(body), KEEPS) == bytes.fromhex(after)


def test_a_refused_topic_stays() -> None:
    """The client has asked for it; it must see the error."""
    api = api_of(ApiKey.METADATA, 12)
    fields = {"topics": [{"name": "odd", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}]}
    body = messages.encode(messages.make_response(api, fields))
    assert cut(api, body, KEEPS) is None


def test_a_reply_that_is_no_listing_is_not_read() -> None:
    """It is a mistake of the caller, and never a listing that passes."""
    with pytest.raises(WireError, match="no listing"):
        cut(api_of(ApiKey.HEARTBEAT, 4), b"", KEEPS)


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
