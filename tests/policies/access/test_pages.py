"""A client pages through all topics (DescribeTopicPartitions): it sees each of its own once, and no other's name."""

from hypothesis import given
from hypothesis import strategies as st

from policies import messages
from policies.access.rights import DESCRIBE, Grant, Rights
from policies.requests import Peer
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey
from wire.authorization import Operation
from wire.listing_cuts import cut
from wire.listing_view import View

API = api_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
PEER = Peer(1, "10.0.0.1", 1, user="bob", principal_source="sasl", proof="sasl:PLAIN")
ALLOWED = ("*", "a*", "ab*", "b.*", "__*", "ab", "b", "c-1")
DENIED = ("ab*", "b.*", "__*", "a-*", "*", "abc*")
topics = st.dictionaries(st.text("ab_-.c1", min_size=1, max_size=4), st.integers(1, 5), max_size=14)
Cursor = tuple[str, int]


def page(topics: dict[str, int], limit: int, cursor: Cursor | None) -> bytes:
    """Return a page as a broker without rules makes it (`KRaftMetadataCache.describeTopicResponse`)."""
    first, index = cursor or ("", 0)
    listed, following, left = [], None, limit
    for name in sorted(each for each in topics if each >= first):
        if not left:
            following = {"topic_name": name, "partition_index": 0}
            break
        begin = index if name == first else 0
        numbers = range(begin, topics[name])[:left]
        partitions = [{"partition_index": each} for each in numbers]
        listed.append({"name": name, "partitions": partitions})
        if begin + len(numbers) < topics[name]:
            following = {"topic_name": name, "partition_index": begin + len(numbers)}
            break
        left -= len(numbers)
    fields = {"topics": listed, "next_cursor": following}
    return messages.encode(messages.make_response(API, fields))


@given(
    topics,
    st.lists(st.sampled_from(ALLOWED), min_size=1, max_size=3),
    st.lists(st.sampled_from(DENIED), max_size=2),
    st.integers(1, 6),
)
def test_each_topic_is_seen_once_and_no_hidden_one_named(
    topics: dict[str, int], allowed: list[str], denied: list[str], limit: int
) -> None:
    """Whatever the limit, and wherever the hidden topics stand."""
    rights = Rights(
        [
            Grant(("bob",), True, dict.fromkeys(allowed, DESCRIBE), {}, {}, frozenset()),
            Grant(("bob",), False, dict.fromkeys(denied, DESCRIBE), {}, {}, frozenset()),
        ],
        {},
    )
    subject = rights.subject(PEER)
    view = View(
        lambda _, name, operation: bool(subject.topic(name) >> operation & 1),
        next_topic=subject.next_topic,
    )
    shown = {name for name in topics if subject.topic(name) >> Operation.DESCRIBE & 1}
    seen: list[Cursor] = []
    cursor: Cursor | None = None
    for _ in range(sum(topics.values()) + 2):
        body = page(topics, limit, cursor)
        after = cut(API, body, view)
        reply = messages.decode_response(API, body if after is None else after)
        for topic in messages.structs(reply, "topics"):
            seen += [(topic.name, each.partition_index) for each in topic.partitions]
            assert topic.name in shown
        if reply.next_cursor is None:
            break
        cursor = reply.next_cursor.topic_name, reply.next_cursor.partition_index
        assert cursor[0] not in topics or cursor[0] in shown
    else:
        raise AssertionError("the pages have no end")
    assert sorted(seen) == sorted((name, each) for name in shown for each in range(topics[name]))


def test_a_topic_that_a_rule_denies_by_name_is_passed_by() -> None:
    """A page that shows only such a topic is followed by the rest."""
    grants = [
        Grant(("bob",), True, {"*": DESCRIBE}, {}, {}, frozenset()),
        Grant(("bob",), False, {"b": DESCRIBE}, {}, {}, frozenset()),
    ]
    subject = Rights(grants, {}).subject(PEER)
    view = View(
        lambda _, name, operation: bool(subject.topic(name) >> operation & 1),
        next_topic=subject.next_topic,
    )
    after = cut(API, page({"b": 3, "c": 1}, 1, None), view)
    assert after is not None
    reply = messages.decode_response(API, after)
    assert (reply.topics, reply.next_cursor.topic_name) == ((), "b!")
