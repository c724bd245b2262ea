"""The walk of a Fetch reply finds its last tags wherever the chunks end; a reply in the quick shape surely has none."""

from dataclasses import fields, replace
from itertools import pairwise

from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec
from wire.apis import ApiKey
from wire.fetch_topics import FetchTopics
from wire.fetch_walk import FetchWalk
from wire.primitives import INT32
from wire.untagged_reply import UntaggedFetch

VERSIONS = range(16, 19)
BEFORE = b"\x07\x09"


def frame_of(body: bytes) -> bytes:
    return INT32.pack(5 + len(body)) + INT32.pack(7) + b"\x00" + body


def tail_of(walk: FetchWalk, frame: bytes, cuts=()) -> int | None:
    """Return where the walk finds the tail of this frame, in chunks that end at these places; None: nowhere."""
    found = None
    for start, end in pairwise(sorted({0, len(frame), *cuts})):
        walk.feed(bytearray(BEFORE + frame[start:end] + b"stale"), 2, 2 + end - start)
        if walk.broken:
            return None
        if walk.done and found is None:
            found = start + walk.tail_at - 2
    return found


def bodies(data, version: int) -> tuple[object, bytes, bytes]:
    """Return any reply, its body and the body without the endpoints, up to its last tags."""
    message = data.draw(messages_of(codec.response_shape(api_of(ApiKey.FETCH, version))))
    body = codec.encode(message)
    plain = codec.encode(replace(message, node_endpoints=()))
    return message, body, plain[:-1]


@for_each(VERSIONS, examples=40)
def test_the_tail_begins_where_the_topics_end(version, data):
    """Of any reply, cut anywhere; the reader of topics finds it at the same place."""
    _, body, head = bodies(data, version)
    frame = frame_of(body)
    cuts = data.draw(st.sets(st.integers(0, len(frame)), max_size=12))
    for kind in (FetchWalk, FetchTopics):
        for places in ((), cuts, range(len(frame))):
            assert tail_of(kind(version), frame, places) == 9 + len(head)


@for_each(VERSIONS, examples=40)
def test_damage_is_found_alike_in_any_chunks(version, data):
    """A walk of overwritten bytes ends at one place, or gives up, without raising."""
    _, body, _ = bodies(data, version)
    frame = bytearray(frame_of(body))
    frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    whole = tail_of(FetchWalk(version), bytes(frame))
    assert tail_of(FetchWalk(version), bytes(frame), range(len(frame))) == whole
    shape = UntaggedFetch(version)
    if shape.matches(bytearray(frame), 0, len(frame)):
        assert whole == len(frame) - 1


@for_each(VERSIONS, examples=40)
def test_the_quick_shape_has_no_last_tags(version, data):
    """It is that of any reply whose topics and partitions have no tags either; nothing after the frame is read."""
    message, body, head = bodies(data, version)
    frame = frame_of(body)
    shape = UntaggedFetch(version)
    buf = bytearray(BEFORE + frame + b"\x00stale")
    matches = shape.matches(buf, 2, 2 + len(frame))
    none = {
        field.name: field.default
        for field in fields(
            codec.response_shape(api_of(ApiKey.FETCH, version))
            .item("responses")
            .item("partitions")
            .type_
        )
        if "tag" in field.metadata
    }
    partitions = [each for topic in message.responses for each in topic.partitions]
    has_tags = message.node_endpoints or any(each != replace(each, **none) for each in partitions)
    has_empty = any(not topic.partitions for topic in message.responses)
    assert matches == (not has_tags and not has_empty)
    for stop in range(2, 2 + len(frame)):
        if shape.matches(buf, 2, stop):
            assert stop == 2 + 9 + len(head)  # one byte short: the last tags of a topic
