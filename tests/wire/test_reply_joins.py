"""Items added to a reply: they come first, everything else stays, and a part of the reply is enough."""

import pytest

from tests.support.messages import divided_requests as d
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.item_arrays import is_divisible
from wire.reply_joins import Additions, add_items

DIVISIBLE = [api for api in apis_known() if is_divisible(api)]
ARRAYS = ("responses", "results", "coordinators", "transaction_states", "topics", "groups",
          "results_by_topic_v3_and_below")  # fmt: skip


def array_of(reply):
    """The name of the array of items."""
    return next(name for name in ARRAYS if hasattr(reply, name))


def added_to(api, body, items, **options):
    """The body between other bytes, with these items."""
    encoded = b"".join(codec.encode(item) for item in items)
    framed = b"head" + body + b"tail"
    return add_items(api, framed, 4, 4 + len(body), Additions(encoded, len(items)), **options)


@for_each(DIVISIBLE, examples=15)
def test_the_other_fields_and_items_stay(api, data):
    """A reply to which all items of another are added has both, and differs in nothing else."""
    replies = messages_of(codec.response_shape(api))
    first, second = data.draw(replies), data.draw(replies)
    name = array_of(first)
    items = getattr(second, name) or ()
    joined = codec.decode_response(api, added_to(api, codec.encode(first), items, beside_code=True))
    assert getattr(joined, name) == (*items, *(getattr(first, name) or ()))
    for field in codec.response_shape(api).untagged:
        if field.name != name:
            assert getattr(joined, field.name) == getattr(first, field.name)


@for_each(api for api in DIVISIBLE if codec.response_shape(api).field("error_code"))
def test_a_reply_with_a_code_of_its_own_stays_as_it_is(api):
    """It refuses all of the request; but the code of a Metadata is not about its topics."""
    item = codec.decode_response(
        api, d.reply_body(api, {"bad": {0: 29} if d.has_partitions(api) else 29})
    )
    name = array_of(item)
    refused = d.reply_body(api, {}, top=6)
    joined = added_to(api, refused, getattr(item, name))
    assert (joined == refused) is (api.key != ApiKey.METADATA)


def test_the_first_part_of_a_fetch_is_enough() -> None:
    """Its topics may be long, and stream."""
    api = api_of(ApiKey.FETCH, 12)
    body = d.reply_body(api, {"good": {0: 0}})
    items = codec.decode_response(api, d.reply_body(api, {"bad": {0: 29}})).responses
    whole = added_to(api, body, items)
    assert added_to(api, body[:11], items) == whole[: len(whole) - len(body) + 11]
    for cut in range(11):
        with pytest.raises(WireError):
            added_to(api, body[:cut], items)


@for_each(api for api in d.VERSIONS if api.name in d.IN_GROUPS and d.kind_of(api) is d.GROUP)
def test_topics_are_added_to_their_group(api):
    """To the first of its name, if that has no code of its own; groups that are not there get none."""
    body = d.reply_body(api, {"g": {"good": {3: 0}}, "h": 14, "g2": {}})
    with_topic = codec.decode_response(api, d.reply_body(api, {"x": {"bad": {1: 29}}}))
    topic = codec.encode(with_topic.groups[0].topics[0])
    groups = dict.fromkeys(("g", "h", "g2", "absent"), (topic, 1))
    joined = add_items(api, body, 0, len(body), Additions(inside=groups))
    expected = {"g": {"bad": {1: 29}, "good": {3: 0}}, "h": 14, "g2": {"bad": {1: 29}}}
    assert joined == d.reply_body(api, expected)


def test_the_size_of_what_is_added_counts_all_of_it() -> None:
    """It is kept until the reply comes."""
    assert Additions(b"abc", 1, {"g": (b"de", 1), "h": (b"f", 1)}).size_bytes == 6


def test_an_api_without_items_gets_none() -> None:
    """A Heartbeat, for example."""
    with pytest.raises(WireError, match="no array of items"):
        add_items(api_of(ApiKey.HEARTBEAT, 4), bytes(20), 0, 20, Additions())
