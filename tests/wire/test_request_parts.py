"""A request divided by its topics and partitions or its groups, and replies joined again."""

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.reply_joins import insert_items
from wire.request_names import read_names
from wire.request_parts import DIVISIBLE, GROUPED, STEP_TOPICS, dividing, dividing_by_group
from wire.schema import make_message

BY_TOPIC = [api for api in apis_known() if api.key in DIVISIBLE]
HEAD = b"some head"


def ended(work):
    """What the work returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def divide(api, data, label_of):
    """A body for each label of its topics and partitions."""
    return ended(dividing(api, bytearray(HEAD + data), len(HEAD), {}, label_of))[0]


def divided(api, data, label_of):
    """A body for each label of its groups, and how often it paused."""
    return ended(dividing_by_group(api, data, 0, label_of))


def named(api, body):
    """(topic, partition) of each item, in order; None as partition of a topic without any."""
    found = read_names(api, bytearray(body), 0, len(body), {})
    return [(ref.key, p) for ref in found.topics for p in ref.partitions or (None,)]


@for_each(BY_TOPIC, examples=15)
def test_no_item_is_lost_or_changed(api, data):
    """The parts together name what the request names; one part alone is the request."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    everything = divide(api, body, lambda *_: "all")
    items = named(api, body)
    assert everything == ({"all": body} if items else {})

    def label(topic, partition):
        return hash((topic.key, partition)) % 3

    parts = divide(api, body, label)
    for number, part in parts.items():
        expected = [item for item in items if hash(item) % 3 == number]
        assert named(api, part) == expected
        assert codec.encode(codec.decode_request(api, part)) == part
    assert sum(len(named(api, part)) for part in parts.values()) == len(items)


def test_another_api_is_neither_divided_nor_joined():
    """ListOffsets, for example."""
    api = api_of(ApiKey.LIST_OFFSETS, 5)
    with pytest.raises(WireError):
        divide(api, bytes(20), lambda *_: None)
    with pytest.raises(WireError):
        insert_items(api, bytes(20), 0, 20, b"", 0)


FIRST = {ApiKey.OFFSET_FETCH: 8, ApiKey.FIND_COORDINATOR: 4}
"""The first version that names several groups."""
DIVIDED = [
    api for api in apis_known() if api.key in GROUPED and api.version >= FIRST.get(api.key, 0)
]
UNDIVIDED = [
    api for api in apis_known() if api.key not in GROUPED or api.version < FIRST.get(api.key, 0)
]


def body(api, groups):
    """A request body that names these groups, with topics in it where it has such."""
    shape = codec.request_shape(api)
    field = next(
        f
        for n in ("groups", "groups_names", "group_ids", "coordinator_keys")
        if (f := shape.field(n))
    )
    items = tuple(groups)
    if field.shape is not None:
        items = tuple(make_message(field.shape, 0, {"group_id": g}) for g in groups)
    return codec.encode(make_message(shape, 0, {field.name: items}))


@for_each(DIVIDED)
def test_each_part_is_the_request_of_its_groups(api):
    """To the byte, in the order of the request; and its groups are those that a policy sees."""
    parts, _ = divided(api, body(api, ["a1", "b1", "a2"]), lambda group: group[0])
    assert parts == {"a": body(api, ["a1", "a2"]), "b": body(api, ["b1"])}
    assert read_names(api, parts["a"], 0, len(parts["a"]), {}).groups == ("a1", "a2")


@for_each(UNDIVIDED)
def test_no_other_request_is_divided(api):
    """It is refused whole then."""
    with pytest.raises(WireError, match="cannot be divided by groups"):
        divided(api, b"", lambda group: group)


def test_many_groups_are_divided_in_turns():
    """One step handles a hundred."""
    api = api_of(ApiKey.DESCRIBE_GROUPS, 5)
    parts, pauses = divided(api, body(api, [str(n) for n in range(1000)]), lambda _: 0)
    assert len(parts) == 1
    assert pauses == 1000 // STEP_TOPICS


def topics_of(reply: object) -> tuple[object, ...]:
    """The items of the array of topics."""
    return getattr(reply, "responses", None) or getattr(reply, "topics", ()) or ()


@for_each(BY_TOPIC, examples=15)
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
