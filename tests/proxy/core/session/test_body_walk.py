"""Topic usage: the topics of forwarded requests are counted, without changing or delaying them."""

import pytest

from proxy.core.stats.topic_usage import TopicUsage
from tests.support import frames as f
from tests.support.sessions import Wire, make_engine


@pytest.fixture
def book() -> TopicUsage:
    return TopicUsage()


@pytest.mark.parametrize("chunk", [7, 64, 1 << 18])
def test_a_produce_is_counted_by_topic_and_forwarded_unchanged(book, chunk):
    """Whether it is read whole or in pieces."""
    wire = Wire(make_engine(topic_usage=book))
    frames = f.produce(1, size_bytes=600) + f.produce(2, size_bytes=600)
    wire.client(frames, chunk)
    assert wire.to_broker == frames
    assert book.unread + sum(use.produced.frames for use in book.take()) == 2


def test_no_body_is_walked_without_topic_usage():
    """By default Produce takes the fast loop and no plan asks for topics."""
    wire = Wire()
    wire.client(f.produce(1) + f.produce(2))
    assert wire.session.requests is None
    assert all(not plan.topics for plan in wire.session.plans.by_kind.values())


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_body_that_cannot_be_read_passes_all_the_same(book, acks):
    """It is counted as unread, and the broker decides."""
    wire = Wire(make_engine(topic_usage=book))
    frame = bytearray(f.produce(1, acks, topic="orders"))
    at = frame.index(b"orders") - 2
    frame[at : at + 2] = b"\xff\xfe"  # a name of -2 bytes
    wire.client(bytes(frame))
    assert wire.to_broker == bytes(frame)
    assert not wire.session.ended
    assert book.unread == 1
