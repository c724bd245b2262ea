"""Items that Sluice adds to a reply stand in its array of topics, before those of the broker."""

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import apis_known, messages_of
from wire import codec
from wire.apis import BY_KEY_AND_VERSION
from wire.errors import WireError
from wire.reply_joins import insert_items
from wire.request_parts import DIVISIBLE

JOINED = [api for api in apis_known() if api.key in DIVISIBLE]


def topics_of(reply: object) -> tuple[object, ...]:
    """The items of the array of topics."""
    return getattr(reply, "responses", None) or getattr(reply, "topics", ()) or ()


@for_each(JOINED, examples=15)
def test_the_other_fields_and_items_stay(api, data):
    """A reply to which all items of another are added has both, and differs in nothing else."""
    replies = messages_of(codec.response_shape(api))
    first, second = data.draw(replies), data.draw(replies)
    items = [codec.encode(item) for item in topics_of(second)]
    body = b"head" + codec.encode(first) + b"tail"
    joined = insert_items(api, body, 4, len(body) - 4, b"".join(items), len(items))
    decoded = codec.decode_response(api, joined)
    assert topics_of(decoded) == (*topics_of(second), *topics_of(first))
    again = insert_items(api, codec.encode(first), 0, len(codec.encode(first)), b"", 0)
    assert len(joined) == len(codec.encode(decoded))
    assert codec.decode_response(api, again) is not None


def test_another_api_has_no_such_array():
    """A reply of ListOffsets is never joined."""
    api = next(api for api in BY_KEY_AND_VERSION.values() if api.name == "ListOffsets")
    with pytest.raises(WireError):
        insert_items(api, bytes(20), 0, 20, b"", 0)
