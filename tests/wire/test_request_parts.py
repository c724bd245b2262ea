"""A request divided by its items: nothing is lost, nothing else changes, and any bytes are divided or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import divided_requests as d
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, survives
from wire import codec
from wire.apis import ApiKey
from wire.authorization import ResourceType
from wire.errors import WireError
from wire.item_arrays import Item, is_divisible
from wire.primitives import array_count, compact_count
from wire.replies import echo_of
from wire.request_parts import (
    STEP_ELEMENTS,
    STEP_ITEMS,
    dividing,
    emptied,
)
from wire.schema import make_message

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


def divide(api, body, label_of, name_of=None):
    """The parts of a request whose body follows a head."""
    return ended(dividing(api, bytearray(HEAD + body), len(HEAD), name_of or {}, label_of))[0]


def items_of(api, body):
    """(item, partition) of each item of the request, in its order."""
    found = []
    divide(api, body, lambda item, partition: found.append((item, partition)))
    return found


def nothing(*_):
    """Refuse nothing."""


def test_the_divisible_apis_are_those_that_kafka_divides_and_transactions() -> None:
    """In every version that the codec knows; a FindCoordinator of one key is refused whole."""
    expected = {(api.key, api.version) for api in d.VERSIONS}
    expected |= {(ApiKey.ADD_PARTITIONS_TO_TXN, version) for version in range(4)}
    found = {(api.key, api.version) for api in apis_known() if is_divisible(api)}
    assert found == expected


@for_each(d.VERSIONS, examples=15)
def test_a_request_of_which_nothing_is_refused_is_what_is_left(api, data):
    """To the byte, whatever stands in its items; a null array stays null."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    parts = divide(api, body, nothing)
    assert parts.rest == body
    assert (parts.refused, parts.inside) == ({}, {})


@for_each(d.VERSIONS, examples=15)
def test_what_is_left_is_the_request_of_the_other_items(api, data):
    """Each item is either left or refused; what is left is a request of its own, byte for byte."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))

    def label_of(item, partition):
        return hash((item, partition)) % 2 or None

    parts = divide(api, body, label_of)
    every = items_of(api, body)
    left = items_of(api, parts.rest)
    assert codec.encode(codec.decode_request(api, parts.rest)) == parts.rest
    in_groups = any(item.kind is ResourceType.TOPIC for item, _ in every) and any(
        item.kind is ResourceType.GROUP for item, _ in every
    )
    if not in_groups:
        assert left == [(item, p) for item, p in every if label_of(item, p) is None]
    assert all(label_of(item, p) is None for item, p in left if item.kind or not in_groups)


@for_each(d.VERSIONS)
def test_what_is_left_is_the_request_without_the_refused_items(api):
    """As a client would have made it."""
    kind = d.kind_of(api)
    parts = divide(
        api,
        d.request_body(api, {"a": (0, 1), "bad": (2,), "c": (3,)}),
        lambda item, _: 7 if _is(item, kind, "bad") else None,
    )
    assert parts.rest == d.request_body(api, {"a": (0, 1), "c": (3,)})
    assert list(parts.refused) == [7]
    assert parts.items == 2


def _is(item, kind, name):
    ident = d.id_of(name).bytes
    return item.kind is kind and (item.name == name or item.topic_id == ident)


@for_each(d.VERSIONS)
def test_partitions_are_refused_one_by_one(api):
    """Where Kafka answers partitions; elsewhere the item is one."""
    body = d.request_body(api, {"a": (0, 1, 2)})
    parts = divide(api, body, lambda _, partition: 7 if partition == 1 else None)
    if d.has_partitions(api):
        assert parts.rest == d.request_body(api, {"a": (0, 2)})
    else:
        assert parts.rest == body


def test_an_id_has_the_name_that_the_policies_saw() -> None:
    """An id without a known name has none."""
    api = api_of(ApiKey.FETCH, 13)
    body = d.request_body(api, ["good", "bad"])
    good, bad = (d.IDS[each].bytes for each in ("good", "bad"))
    seen = []
    divide(api, body, lambda item, _: seen.append(item), {good: "the name"})
    assert seen == [Item(d.TOPIC, "the name", good), Item(d.TOPIC, None, bad)]


def test_a_refused_item_is_cut_to_what_its_reply_repeats() -> None:
    """Of a hundred thousand names one stays; and the walk pauses."""
    api = api_of(ApiKey.DESCRIBE_CONFIGS, 4)
    shape = codec.request_shape(api)
    values = {"resource_name": "t", "configuration_keys": ("k",) * 100_000}
    resource = make_message(shape.item("resources"), 0, values)
    body = codec.encode(make_message(shape, 0, {"resources": (resource,)}))
    parts, pauses = ended(dividing(api, body, 0, {}, lambda *_: "refused"))
    (piece,) = parts.refused["refused"]
    item = codec.decode_struct(shape.item("resources"), piece, 10)
    assert (item.resource_name, item.configuration_keys) == ("t", ("k",))
    assert pauses >= 100_000 // STEP_ELEMENTS


def test_a_topic_of_many_partitions_is_refused_in_several_items() -> None:
    """No item has more than one step answers; the last tags of the topic stay with each."""
    api = api_of(ApiKey.LIST_OFFSETS, 7)
    shape = codec.request_shape(api).item("topics")
    body = d.request_body(api, {"t": range(2 * STEP_ITEMS + 1)})
    pieces = divide(api, body, lambda *_: 0).refused[0]
    items = [codec.decode_struct(shape, piece, STEP_ITEMS + 1) for piece in pieces]
    assert [len(item.partitions) for item in items] == [STEP_ITEMS, STEP_ITEMS, 1]
    found = [each.partition_index for item in items for each in item.partitions]
    assert found == list(range(2 * STEP_ITEMS + 1))


@for_each(apis_known(), examples=4)
def test_an_emptied_body_has_the_fields_before_its_items(api, data):
    """And zero values after them; an API without such an array has none."""
    message = data.draw(messages_of(codec.request_shape(api)))
    body = codec.encode(message)
    if echo_of(api) is None:
        with pytest.raises(WireError, match="cannot be divided"):
            emptied(api, body)
        return
    empty = emptied(api, body)
    found = codec.decode_request(api, empty)
    for field in codec.request_shape(api).untagged:
        if field.is_array:
            assert not getattr(found, field.name)
            break
        assert getattr(found, field.name) == getattr(message, field.name)


@pytest.mark.parametrize(
    "key", [ApiKey.HEARTBEAT, ApiKey.WRITE_TXN_MARKERS, ApiKey.ALTER_REPLICA_LOG_DIRS]
)
def test_a_request_without_items_in_one_array_is_not_divided(key):
    """Its refusal is about the whole request."""
    with pytest.raises(WireError, match="cannot be divided by its items"):
        divide(api_of(key, 1), bytes(20), nothing)


@given(st.sampled_from(d.VERSIONS), st.data())
def test_a_damaged_request_is_divided_or_refused(api, data):
    """By its own error alone."""
    body = bytearray(d.request_body(api, ["good", "bad"]))
    at = data.draw(st.integers(0, len(body) - 1))
    junk = data.draw(st.binary(max_size=8))
    body[at : at + len(junk)] = junk
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    assert survives(divide, api, cut, lambda *_: 1) in {True, False}


def test_counts_stay_in_their_encoding() -> None:
    """A compact count begins at one, a classic one has four bytes."""
    for version, read in ((5, compact_count), (4, array_count)):
        api = api_of(ApiKey.DESCRIBE_GROUPS, version)
        rest = divide(
            api, d.request_body(api, ["a", "b"]), lambda item, _: item.name == "b" or None
        ).rest
        assert read(rest, 0, len(rest))[0] == 1
