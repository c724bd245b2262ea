"""A request divided by its topics and partitions: each part has the bytes of its own, in their order."""

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.request_names import read_names
from wire.request_parts import DIVISIBLE, divide

DIVIDED = [api for api in apis_known() if api.key in DIVISIBLE]
HEAD = b"some head"


def named(api, body):
    """(topic, partition) of each item, in order; None as partition of a topic without any."""
    found = read_names(api, bytearray(body), 0, len(body), {})
    return [(ref.key, p) for ref in found.topics for p in ref.partitions or (None,)]


@for_each(DIVIDED, examples=15)
def test_no_item_is_lost_or_changed(api, data):
    """The parts together name what the request names; one part alone is the request."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    everything = divide(api, bytearray(HEAD + body), len(HEAD), {}, lambda *_: "all")
    items = named(api, body)
    assert everything == ({"all": body} if items else {})

    def label(topic, partition):
        return hash((topic.key, partition)) % 3

    parts = divide(api, bytearray(HEAD + body), len(HEAD), {}, label)
    for number, part in parts.items():
        expected = [item for item in items if hash(item) % 3 == number]
        assert named(api, part) == expected
        assert codec.encode(codec.decode_request(api, part)) == part
    assert sum(len(named(api, part)) for part in parts.values()) == len(items)


def test_another_api_cannot_be_divided():
    """ListOffsets, for example."""
    with pytest.raises(WireError):
        divide(api_of(ApiKey.LIST_OFFSETS, 5), bytearray(20), 0, {}, lambda *_: None)
