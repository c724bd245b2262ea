"""Error replies to requests with more items than one step may answer."""

from contextlib import suppress
from itertools import chain
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, asking
from wire import codec, replies
from wire.apis import ApiKey
from wire.errors import ErrorCode, WireError
from wire.large_refusals import STEP_ELEMENTS, STEP_ITEMS, refusing, splitting
from wire.replies import MAX_REFUSED_ELEMENTS, error_body
from wire.request_layouts import names_anything
from wire.schema import make_message

CODE = ErrorCode.GROUP_AUTHORIZATION_FAILED
WORDS = "no rule allows it"
ITEMS = 1_050
NESTED = {ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.WRITE_TXN_MARKERS}
"""Their topics stand in the items of another array. Clients of a hundred directories, and brokers, send them."""
VERSIONS = [api for api in apis_known() if names_anything(api.key) and api.key not in NESTED]
DESCRIBE_GROUPS = api_of(ApiKey.DESCRIBE_GROUPS, 5)
DESCRIBE_CONFIGS = api_of(ApiKey.DESCRIBE_CONFIGS, 4)


def body(api, items=ITEMS):
    """Return a request with so many elements in each of its own arrays."""
    shape = codec.request_shape(api)
    small = asking(shape)
    arrays = {
        field.name: (getattr(small, field.name) * items)[:items]
        for field in shape.untagged
        if field.is_array
    }
    return codec.encode(make_message(shape, 0, arrays))


def end_of(work):
    """Run the generator; return how often it paused, and its result."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return pauses, end.value
        pauses += 1


@for_each(VERSIONS)
def test_a_large_request_gets_the_reply_that_a_small_one_gets(api):
    """To the byte: each topic, group, resource and ACL has its code, in the request's order, over several steps."""
    large = body(api, 130)
    with patch.object(replies, "MAX_REFUSED_ELEMENTS", 2 * STEP_ITEMS):
        _, found = end_of(refusing(api, large, CODE, WORDS))
    with patch.object(replies, "MAX_REFUSED_ELEMENTS", 1_000_000):
        assert found == error_body(api, large, CODE, WORDS)


@for_each([DESCRIBE_GROUPS, DESCRIBE_CONFIGS])
def test_it_is_made_in_steps(api):
    """A step answers few of the items."""
    pauses, _ = end_of(refusing(api, body(api), CODE, WORDS))
    assert pauses >= ITEMS // 50


def test_no_part_of_a_divided_request_has_more_than_its_items():
    """Topics are joined in a part, and the partitions of one are divided; all are there, in order."""
    api = api_of(ApiKey.DELETE_RECORDS, 2)
    shape = codec.request_shape(api)
    of_topic = shape.item("topics")
    asked = [("a", range(3)), ("b", range(7)), ("c", range(1)), ("d", range(4))]
    topics = tuple(
        make_message(
            of_topic,
            0,
            {
                "name": name,
                "partitions": tuple(
                    make_message(of_topic.item("partitions"), 0, {"partition_index": index})
                    for index in indexes
                ),
            },
        )
        for name, indexes in asked
    )
    body = codec.encode(make_message(shape, 0, {"topics": topics}))
    _, *parts = (each for each in splitting(api, body, 0, 4) if each is not None)
    found = [
        [(topic.name, each.partition_index) for topic in part.topics for each in topic.partitions]
        for part in (codec.decode_request(api, each) for each in parts)
    ]
    assert [len(each) for each in found] == [4, 4, 4, 3]
    assert [*chain(*found)] == [(name, index) for name, indexes in asked for index in indexes]


def test_one_item_may_hold_a_large_array():
    """A hundred thousand names of one resource are stepped over, with pauses, and no reply repeats them."""
    shape = codec.request_shape(DESCRIBE_CONFIGS)
    field = shape.field("resources")
    keys = tuple(["k"] * 100_000)
    resource = make_message(field.shape, 0, {"resource_name": "t", "configuration_keys": keys})
    large = codec.encode(make_message(shape, 0, {"resources": (resource,)}))
    pauses, found = end_of(refusing(DESCRIBE_CONFIGS, large, CODE, WORDS))
    (result,) = codec.decode_response(DESCRIBE_CONFIGS, found).results
    assert (result.resource_name, result.error_code) == ("t", CODE)
    assert pauses >= len(keys) // STEP_ELEMENTS


@for_each(
    [
        (api_of(ApiKey.HEARTBEAT, 4), "cannot be split"),
        (api_of(ApiKey.STREAMS_GROUP_HEARTBEAT, 1), "cannot be split"),
    ]
)
def test_a_request_without_items_cannot_be_split(api, match):
    """It has no reply in parts; the caller closes the connection."""
    with pytest.raises(WireError, match=match):
        next(splitting(api, b"", 0, STEP_ITEMS))


def test_an_item_that_ends_beyond_its_request_is_refused():
    """The last partition of an OffsetDelete is cut."""
    body = b"\0\1g" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0"
    with pytest.raises(WireError, match="an item ends at offset 18, expected 16 at most"):
        list(splitting(api_of(ApiKey.OFFSET_DELETE, 0), body, 0, STEP_ITEMS))


MALFORMED = [
    DESCRIBE_GROUPS,
    DESCRIBE_CONFIGS,
    api_of(ApiKey.FETCH, 12),
    api_of(ApiKey.DELETE_ACLS, 3),
]
LARGE = {api: body(api, MAX_REFUSED_ELEMENTS + 100) for api in MALFORMED}


@given(st.sampled_from(list(LARGE)), st.data())
def test_a_malformed_one_is_refused_by_its_own_error_alone(api, data):
    """With any bytes: a policy that judges by the header has not seen them."""
    good = LARGE[api]
    stop = data.draw(st.integers(0, len(good)))
    at = data.draw(st.integers(0, len(good) - 1))
    junk = data.draw(st.binary(max_size=8))
    bad = bytearray(good)
    bad[at : at + len(junk)] = junk
    with suppress(WireError):
        end_of(refusing(api, bytes(bad[:stop]), CODE, WORDS))
