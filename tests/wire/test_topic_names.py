"""Topic names read along in Metadata that comes in parts: the same as from the whole, and never a fault."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rewritten import metadata_body
from wire import apis, metadata
from wire.apis import ApiKey
from wire.topic_names import MAX_KEPT_BYTES, TopicNames


def fed(version: int, data: bytes, chunk: int) -> TopicNames:
    """What it has read after these parts; each lies somewhere in a buffer, between other bytes."""
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
    """All of them, and nothing is left unread."""
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
    """It never raises, and what cannot be read is given up."""
    fed(12, data, chunk)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_body_that_is_cut_off_is_unread_and_what_came_before_is_known(cut):
    """Names of whole topics are good."""
    data = metadata_body(12, 3, 2)[:-cut]
    names = fed(12, data, 50)
    assert set(names.names.values()) >= {"topic-0", "topic-1"}


def test_no_more_is_kept_than_an_element_may_have():
    """A string that never ends is given up."""
    names = fed(12, bytes(4) + b"\x02" + bytes(4) + b"\xff\xff\xff\x7f" + bytes(600_000), 10_000)
    assert names.is_incomplete
    assert len(names._kept) <= MAX_KEPT_BYTES


def test_before_ids_there_is_nothing_to_learn():
    """Below v10."""
    assert fed(9, bytes(100), 10).names == {}
