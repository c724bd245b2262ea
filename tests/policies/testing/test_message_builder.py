"""Bodies from plain values: any API and version, topics in the shape of each, and clear errors."""

import pytest

from policies.testing.message_builder import request_body, topic_fields
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire.apis import Api, ApiKey
from wire.codec import decode_request, request_shape
from wire.errors import WireError

IDS = {"orders": b"o" * 16, "stock": b"s" * 16}
NAMING = {
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT),
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.OFFSET_FETCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.DESCRIBE_CONFIGS),
}


@for_each([each for each in apis_known() if each.key in NAMING])
def test_topics_are_named_in_the_shape_of_every_version(api: Api) -> None:
    """By name, or by id where the version has no names."""
    fields = topic_fields(request_shape(api), {"orders": (0, 3), "stock": (1,)}, IDS)

    text = repr(decode_request(api, request_body(api, fields)))

    assert all(topic in text or repr_of(IDS[topic]) in text for topic in IDS)


def repr_of(topic_id: bytes) -> str:
    """Return the id as the codec's messages show it."""
    from uuid import UUID  # noqa: PLC0415 - used here only

    return str(UUID(bytes=topic_id))


def test_an_api_without_topics_is_named() -> None:
    """Its message says so."""
    with pytest.raises(ValueError, match="HeartbeatRequest names no topics"):
        topic_fields(request_shape(api_of(ApiKey.HEARTBEAT, 4)), {"orders": (0,)}, IDS)


def test_an_unknown_field_is_named_with_the_nearest() -> None:
    """At any depth."""
    api = api_of(ApiKey.METADATA, 12)
    with pytest.raises(ValueError, match=r"has no field 'nme'.*did you mean name"):
        request_body(api, {"topics": [{"nme": "orders"}]})


def test_a_value_that_does_not_fit_is_refused() -> None:
    """The message names the value."""
    with pytest.raises(WireError):
        request_body(api_of(ApiKey.HEARTBEAT, 4), {"group_id": 5})
