"""Topic names read from chunks of a Metadata reply equal those of the whole reply, and nothing raises."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.messages.rewritten import metadata_body
from wire import apis, metadata
from wire.apis import ApiKey
from wire.topic_names import MAX_KEPT_BYTES, TopicNames


def fed(version: int, data: bytes, chunk: int) -> TopicNames:
    """Return a reader that was fed the data in chunks, each between other bytes in a buffer."""
    api = apis.find(ApiKey.METADATA, version)
    assert api is not None
    names = TopicNames(api)
    for at in range(0, len(data), chunk):
        part = data[at : at + chunk]
        names.feed(bytearray(b"\x07" * 5 + part + b"\x07" * 5), 5, 5 + len(part))
    names.close()
    return names


@settings(deadline=None)
@given(
    st.sampled_from([10, 11, 12]),
    st.integers(0, 6),
    st.integers(0, 9),
    st.integers(0, 4),
    st.integers(1, 500),
)
def test_the_names_are_the_same_however_the_reply_is_cut(
    version, topics, partitions, brokers, chunk
):
    """Any chunks give all names, and the reader has read everything."""
    data = metadata_body(version, topics, partitions, brokers)
    api = apis.find(ApiKey.METADATA, version)
    whole = metadata.topic_names(bytearray(data), 0, len(data), api)
    names = fed(version, data, chunk)
    assert names.names == whole
    assert len(whole) == topics
    assert not names.is_incomplete


@settings(deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 300))
def test_any_bytes_are_read_without_a_fault(data, chunk):
    """Any bytes raise nothing; the reader gives up on malformed ones."""
    fed(12, data, chunk)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_cut_body_keeps_the_names_before_the_cut(cut):
    """The names of complete topics are known; the reader says that others may be missing."""
    data = metadata_body(12, 3, 2)[:-cut]
    names = fed(12, data, 50)
    assert set(names.names.values()) >= {"topic-0", "topic-1"}
    assert names.is_incomplete is (cut > 1)  # the last byte has only tags


@pytest.mark.parametrize("chunk", [1, 10, 1000])
def test_a_topic_without_a_name_hides_no_other(chunk):
    """A broker names no topic for an id that it does not know."""
    data = metadata_body(12, 2, 2)
    cluster, topics, rest = data.partition(b"\x03\x00\x00\x08topic-0")
    unknown = b"\x00\x64\x00" + b"\x07" * 16 + b"\x00\x01" + bytes(4) + b"\x00"
    names = fed(12, cluster + b"\x04" + unknown + topics[1:] + rest, chunk)
    assert sorted(names.names.values()) == ["topic-0", "topic-1"]
    assert not names.is_incomplete


def test_a_string_without_end_is_given_up():
    """The reader keeps at most the bytes that one element may have."""
    endless = bytes(4) + b"\x02" + bytes(4) + b"\xff\xff\xff\x7f" + bytes(600_000)
    tracemalloc.start()
    try:
        names = fed(12, endless, 10_000)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert names.is_incomplete
    assert held_bytes <= MAX_KEPT_BYTES + 20_000


def test_versions_without_topic_ids_are_not_read():
    """Versions below v10 have no topic ids."""
    assert fed(9, bytes(100), 10).names == {}
