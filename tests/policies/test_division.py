"""What becomes of a request of which a part is denied: refused whole, divided, or passed."""

import pytest

from policies.denial import Deny
from policies.division import Division, divided
from tests.support.messages import divided_requests as d
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode
from wire.request_names import RequestNames, read_names
from wire.topic_refs import TopicRef

DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP_DENIED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
PATTERN = Ask(ResourceType.TOPIC, None, Operation.DESCRIBE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def division(api, body, *denials, names=None) -> Division:
    """The division of a request, with no words."""
    names = names or read_names(api, bytearray(body), 0, len(body), {})
    work = divided(api, body, 0, names, denials, lambda _: "no")
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def group(name, operation=Operation.READ) -> Ask:
    """A right on a group."""
    return Ask(ResourceType.GROUP, name, operation, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_the_first_policy_names_the_code_of_an_item() -> None:
    """And each item has one; the places say which policy it was."""
    api = api_of(ApiKey.LIST_OFFSETS, 7)
    body = d.request_body(api, ["a", "b", "c"])
    found = division(api, body, Deny({"a": 44}), Deny({"a": DENIED, "b": DENIED}))
    assert found.refused == ((0, 44), (1, DENIED))
    assert found.rest == d.request_body(api, ["c"])
    assert found.added.number == 2


def test_a_right_of_the_whole_request_goes_before_its_items() -> None:
    """Whichever policy denies it."""
    api = api_of(ApiKey.OFFSET_COMMIT, 8)
    body = d.request_body(api, ["a", "b"], group_id="g")
    found = division(api, body, Deny({"a": DENIED}), Deny({group("g"): GROUP_DENIED}))
    assert found == Division(((1, GROUP_DENIED),))
    assert division(api, body, Deny({group("other"): GROUP_DENIED})) == Division()


@pytest.mark.parametrize(
    ("key", "version", "denial"),
    [
        (ApiKey.HEARTBEAT, 4, {group("g"): GROUP_DENIED}),
        (ApiKey.INIT_PRODUCER_ID, 4, {Ask(ResourceType.TRANSACTIONAL_ID, "x", Operation.WRITE, ErrorCode(53)): 53}),
        (ApiKey.CREATE_ACLS, 3, {Ask(ResourceType.CLUSTER, "alter-acls", Operation.ALTER, ErrorCode(31)): 31}),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"t": DENIED}),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {PATTERN: DENIED}),
        (ApiKey.ELECT_LEADERS, 2, {"t": DENIED}),
        (ApiKey.METADATA, 12, {group("g"): GROUP_DENIED}),
    ],
)  # fmt: skip
def test_what_no_item_can_carry_refuses_the_request(key, version, denial) -> None:
    """The group, transactional id or act that it is about, a subscription, and a right that is not its own."""
    names = RequestNames(
        (TopicRef("t", None, (0,)),), ("g",), True, ("x",), ("alter-acls",), (), has_pattern=True
    )
    code = next(iter(denial.values()))
    found = division(api_of(key, version), b"", Deny(denial), names=names)
    assert found == Division(((0, code),))


@for_each(d.VERSIONS)
def test_names_that_are_not_found_among_the_items_refuse_the_request(api):
    """They are read twice, by different code; what one of them misses must not reach the broker."""
    kind = d.kind_of(api)
    topics = (TopicRef("bad", None, ()),) if kind is d.TOPIC else ()
    groups = ("bad",) if kind is d.GROUP else ()
    ids = ("bad",) if kind is d.TRANSACTION else ()
    names = RequestNames(topics, groups, topics_complete=True, transactional_ids=ids)
    denial = Deny({d.ask(api, "bad"): 44})
    body = d.request_body(api, ["good", "better"])
    assert division(api, body, denial, names=names) == Division(((0, 44),))


def test_a_version_that_the_codec_does_not_know_is_refused_whole() -> None:
    """If something of it is denied; else it passes."""
    api = api_of(ApiKey.PRODUCE, 2)
    names = RequestNames((TopicRef("t", None, (0,)),), (), topics_complete=True)
    assert division(api, b"", Deny({"t": DENIED}), names=names) == Division(((0, DENIED),))
    assert division(api, b"", Deny({"u": DENIED}), names=names) == Division()


def test_nothing_of_a_transaction_is_left_for_the_broker() -> None:
    """The others are refused in the name of the first policy that denies."""
    api = api_of(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    shape = d.codec.request_shape(api)
    item = shape.item("v3_and_below_topics")
    topics = tuple(d.make_message(item, 0, {"name": n, "partitions": (1,)}) for n in "ab")
    body = d.codec.encode(d.make_message(shape, 0, {"v3_and_below_topics": topics}))
    found = division(api, body, Deny({"c": 44}), Deny({"a": DENIED}))
    assert (found.refused, found.rest) == (((1, DENIED),), None)
    reply = d.codec.decode_response(api, found.reply)
    codes = {
        t.name: int(t.results_by_partition[0].partition_error_code)
        for t in reply.results_by_topic_v3_and_below
    }
    assert codes == {"a": DENIED, "b": ErrorCode.OPERATION_NOT_ATTEMPTED}
