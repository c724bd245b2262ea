"""Requests about thousands of groups, configs or ACLs: refused in turns, with an error for each."""

import pytest

from policies import messages
from proxy.core.session.naming_exchange import MAX_ELEMENTS
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.large_requests import FEWER, answer, names_of, rules
from tests.support.messages.throttled import versions
from wire.apis import ApiKey
from wire.errors import ErrorCode

ADMINISTRATIVE = {
    (ApiKey.DESCRIBE_GROUPS, 5): ("groups", list, "groups"),
    (ApiKey.DELETE_GROUPS, 2): ("groups_names", list, "results"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 0): ("group_ids", list, "groups"),
    (ApiKey.OFFSET_FETCH, 8): (
        "groups",
        lambda names: [{"group_id": each, "topics": None} for each in names],
        "groups",
    ),
    (ApiKey.FIND_COORDINATOR, 4): ("coordinator_keys", list, "coordinators"),
    (ApiKey.DESCRIBE_CONFIGS, 4): (
        "resources",
        lambda names: [{"resource_type": 2, "resource_name": each} for each in names],
        "results",
    ),
    (ApiKey.CREATE_ACLS, 3): (
        "creations",
        lambda names: [
            {
                "resource_type": 2,
                "resource_name": each,
                "resource_pattern_type": 3,
                "principal": "User:a",
                "host": "*",
            }
            for each in names
        ],
        "results",
    ),
}
"""By API and version: the array of the request, its items of these names, and the array of the reply."""


@pytest.mark.parametrize("kind", ADMINISTRATIVE)
@pytest.mark.parametrize("count", [FEWER, MAX_ELEMENTS + 1])
def test_a_large_request_about_groups_configs_or_acls_is_answered_with_an_error_for_each(
    kind, count
) -> None:
    """In turns, also beyond the budget, and the connection stays: it used to end without a word."""
    array, items, answers = ADMINISTRATIVE[kind]
    wire = Wire(make_engine([rules("other-*")]))
    message = messages.make_request(api_of(*kind), {array: items(names_of(count))})
    wire.client(f.request(*kind, 7, messages.encode(message), tagged=True))
    assert wire.to_broker == b""
    codes = {int(each.error_code) for each in getattr(answer(wire, kind), answers)}
    assert codes <= {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
    assert len(getattr(answer(wire, kind), answers)) == count
    assert wire.held_bytes == 0
    wire.client(versions(8, 1))
    assert wire.to_broker == versions(8, 1)
