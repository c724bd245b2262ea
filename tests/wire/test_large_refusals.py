"""Error replies to requests with more items than one step may answer."""

from contextlib import suppress
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.divided_requests import request_body
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, asking
from wire import codec, replies
from wire.apis import ApiKey
from wire.errors import ErrorCode, WireError
from wire.fetch import session_gone
from wire.large_refusals import refusing
from wire.replies import MAX_REFUSED_ELEMENTS, error_body
from wire.request_layouts import names_anything
from wire.request_parts import STEP_ELEMENTS, STEP_ITEMS
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


def test_the_partitions_of_one_topic_are_all_refused():
    """In several items of the same topic, in order."""
    api = api_of(ApiKey.DELETE_RECORDS, 2)
    count = MAX_REFUSED_ELEMENTS + 50
    large = request_body(api, {"a": range(count), "b": range(7)})
    _, found = end_of(refusing(api, large, CODE, WORDS))
    topics = codec.decode_response(api, found).topics
    assert {len(topic.partitions) for topic in topics} == {STEP_ITEMS, 7}
    named = [(topic.name, each.partition_index) for topic in topics for each in topic.partitions]
    assert named == [("a", index) for index in range(count)] + [("b", index) for index in range(7)]


def test_a_large_fetch_of_a_session_begins_a_new_one():
    """As a small one: its partitions are not all that the client reads."""
    api = api_of(ApiKey.FETCH, 12)
    large = request_body(api, [f"t{n}" for n in range(ITEMS)], session_id=5, session_epoch=3)
    _, found = end_of(refusing(api, large, CODE, WORDS))
    assert found == session_gone(api)


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


@for_each([api_of(key, 1) for key in NESTED])
def test_a_large_request_whose_topics_stand_in_other_items_has_no_reply(api):
    """The caller closes the connection."""
    with pytest.raises(WireError, match="cannot be divided"):
        end_of(refusing(api, body(api), CODE, WORDS))


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
