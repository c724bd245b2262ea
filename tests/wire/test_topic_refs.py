"""Topics that are kept by their bytes: a request reads the same with them and without."""

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec, topic_refs
from wire.apis import Api, ApiKey
from wire.errors import WireError
from wire.names_code import source
from wire.request_layouts import layout_of, names_anything
from wire.request_names import RequestNames, read_names
from wire.topic_refs import MAX_REFS, MAX_SIZE, TopicRef, keep_classic, keep_compact, refs

KEPT = [
    api
    for api in apis_known()
    if names_anything(api.key)
    and (layout := layout_of(api)) is not None
    and "get_ref" in source(api, layout)
]
COMMIT = {"flexible": api_of(ApiKey.OFFSET_COMMIT, 8), "classic": api_of(ApiKey.OFFSET_COMMIT, 7)}


@pytest.fixture(autouse=True)
def nothing_kept():
    """Each test begins without topics, and leaves none."""
    refs.clear()
    yield
    refs.clear()


def read(api: Api, frame: bytes, end: int | None = None) -> RequestNames | type[WireError]:
    """Return the names in a body, or how it is refused."""
    try:
        return read_names(api, bytearray(frame), 0, len(frame) if end is None else end, {})
    except WireError as error:
        return type(error)


def commit(api: Api, topic: str, partition: int = 1) -> bytes:
    """The body of an OffsetCommit of one topic and partition."""
    text = topic.encode()
    if api.flexible:
        head = b"\x02g" + bytes(4) + b"\x01\x00" + b"\x02" + bytes([len(text) + 1])
        return head + text + b"\x02" + partition.to_bytes(4, "big") + bytes(12) + bytes(4)
    head = (
        b"\0\1g"
        + bytes(4)
        + b"\0\0"
        + b"\xff\xff"
        + bytes(3)
        + b"\1"
        + len(text).to_bytes(2, "big")
    )
    return head + text + bytes(3) + b"\1" + partition.to_bytes(4, "big") + bytes(12) + b"\xff\xff"


@for_each(KEPT, examples=25)
def test_what_was_read_before_changes_nothing(api, data):
    """A body, and the same with a byte changed or cut: read first, read again, and read after each other."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    bodies = (body, changed, body[:at])
    fresh = []
    for each in bodies:
        refs.clear()
        fresh.append(read(api, each))
    assert [read(api, each) for each in bodies] == fresh  # what is kept is of the last one
    assert [read(api, each) for each in bodies] == fresh  # of all of them


@pytest.mark.parametrize("kind", COMMIT)
def test_a_topic_with_one_partition_is_the_same_object_again(kind):
    """It is not made a second time, whichever request names it; another partition is another key."""
    api = COMMIT[kind]
    first = read(api, commit(api, "orders"))
    assert first.topics == (TopicRef("orders", None, (1,)),)
    assert read(api, commit(api, "orders")).topics[0] is first.topics[0]
    assert read(api, commit(api, "orders", 2)).topics == (TopicRef("orders", None, (2,)),)
    assert len(refs) == 2


def test_the_versions_do_not_mistake_each_others_keys():
    """A compact key never begins with a zero; the other always does."""
    for kind, api in COMMIT.items():
        read(api, commit(api, "orders"))
        assert len({key[0] == 0 for key in refs}) == (1 if kind == "flexible" else 2)
    assert set(refs.values()) == {TopicRef("orders", None, (1,))}
    assert len(refs) == 2


@pytest.mark.parametrize("kind", COMMIT)
def test_bytes_beyond_the_end_are_no_key(kind):
    """They belong to another frame: a topic whose key would end there is read field by field, and refused."""
    api = COMMIT[kind]
    body = commit(api, "orders")
    read(api, body)
    whole = len(body)
    assert [read(api, body, end) for end in range(8, whole)] == [WireError] * (whole - 8)
    assert isinstance(read(api, body, whole), RequestNames)


@pytest.mark.parametrize("kind", COMMIT)
def test_long_names_are_not_kept(kind):
    """A key's name has MAX_SIZE bytes at most, so that what is kept is bounded."""
    api = COMMIT[kind]
    longest = MAX_SIZE - (kind == "flexible")
    read(api, commit(api, "n" * longest))
    assert len(refs) == 1
    if kind == "classic":
        assert read(api, commit(api, "n" * (longest + 1))).topics[0].name == "n" * (longest + 1)
    assert len(refs) == 1


def test_what_is_kept_is_bounded():
    """A key of a longer varint would not be where the reader looks; no client makes the store larger than MAX_REFS."""
    keep_compact(b"\x02a\x82\x00\x00\x00\x00\x01", 0, TopicRef("a", None, (1,)))
    keep_compact(b"\x00\x02\x00\x00\x00\x01", 0, TopicRef("", None, (1,)))
    keep_classic(b"\xff\xff\x00\x00\x00\x01\x00\x00\x00\x01", 0, TopicRef("", None, (1,)))
    assert not refs

    api = COMMIT["flexible"]
    for number in range(MAX_REFS + 3):
        assert read(api, commit(api, "t", number)).topics[0].partitions == (number,)
    assert len(refs) == 3
    assert topic_refs.refs is refs
