"""Requests divided by their groups."""

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.group_parts import GROUPED, dividing_by_group
from wire.request_names import read_names
from wire.request_parts import STEP_TOPICS
from wire.schema import make_message

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


def divided(api, data, label_of):
    """The parts, and how often it paused."""
    work, pauses = dividing_by_group(api, data, 0, label_of), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


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
