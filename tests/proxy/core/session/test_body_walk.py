"""Topic usage: the topics of forwarded requests are counted, without changing or delaying them."""

import struct

import pytest

from policies.api import FORWARD, Forward, Need, Patch, Reject
from proxy.core.errors import CloseReason
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import ApiKey
from wire.errors import ErrorCode


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
    assert wire.session.walker is None
    assert not any(
        plan.counts_produced or plan.counts_fetched for plan in wire.session.plans.by_kind.values()
    )


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


def guard() -> Recorder:
    """Return a policy that refuses a Produce to the topic `denied`, by the topics of its head."""

    def judge(request):
        names = [name for name, _ in request.head.topics]
        assert names
        return Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED) if "denied" in names else FORWARD

    return Recorder(judge, needs=Need.BODY, apis={ApiKey.PRODUCE})


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 18])
def test_the_topics_of_a_whole_produce_are_complete_when_the_policy_is_asked(chunk):
    """However the reads end; a refused request never reaches the broker."""
    wire = Wire(make_engine([guard()]))
    allowed = f.produce(1, size_bytes=600, topic="orders")
    wire.client(allowed + f.produce(2, size_bytes=600, topic="denied"), chunk)
    assert wire.to_broker == allowed


@pytest.mark.parametrize("fault", ["a name of -2 bytes", "an end inside a field"])
def test_a_whole_produce_that_cannot_be_read_ends_the_connection(fault):
    """A policy that asks for its body must not judge a part of it."""
    wire = Wire(make_engine([guard()]))
    frame = bytearray(f.produce(1, topic="orders"))
    at = frame.index(b"orders") - 2
    if fault == "a name of -2 bytes":
        frame[at : at + 2] = b"\xff\xfe"
    else:
        del frame[-3:]
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    wire.client(bytes(frame))
    assert wire.to_broker == b""
    wire.release()
    assert wire.watcher.closed[0][0] is CloseReason.CLIENT_PROTOCOL


def lowering() -> Recorder:
    """Return a policy that lowers each ShareFetch to 9 bytes, by its head."""
    return Recorder(
        lambda r: Forward((Patch(r.head.max_bytes_at, (9).to_bytes(4, "big")),)),
        needs=Need.HEAD,
        apis={ApiKey.SHARE_FETCH},
    )


SHARE_FETCH = (
    f.compact("group") + f.compact("m" * 36) + struct.pack(">iiiiii", 1, 500, 1, 1000, 10, 10)
)


@pytest.mark.parametrize("chunk", [1, 7, 60, 1 << 18])
def test_a_policy_lowers_a_share_fetch_wherever_a_read_ends(chunk):
    """Its head comes after two names; the broker gets the same bytes however they arrive."""
    wire = Wire(make_engine([lowering()]))
    frame = f.request(ApiKey.SHARE_FETCH, 1, 7, SHARE_FETCH + bytes(200), tagged=True)
    wire.client(frame * 2, chunk)
    lowered = frame.replace(struct.pack(">ii", 1, 1000), struct.pack(">ii", 1, 9))
    assert wire.to_broker == lowered * 2


@pytest.mark.parametrize("chunk", [7, 1 << 18])
@pytest.mark.parametrize("size_bytes", [0, 3, 40, len(SHARE_FETCH) - 12])
def test_a_share_fetch_that_ends_inside_its_head_is_refused(chunk, size_bytes):
    """A policy that judges it by its head never lets it pass unjudged."""
    wire = Wire(make_engine([lowering()]))
    good = f.request(ApiKey.SHARE_FETCH, 1, 6, SHARE_FETCH + bytes(200), tagged=True)
    wire.client(good, chunk)
    assert wire.to_broker
    wire.client(f.request(ApiKey.SHARE_FETCH, 1, 7, SHARE_FETCH[:size_bytes], tagged=True), chunk)
    assert len(wire.to_broker) == len(good)
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
