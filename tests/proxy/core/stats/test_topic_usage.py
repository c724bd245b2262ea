"""The use of each topic by each user in the current second."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stats import topic_usage
from proxy.core.stats.topic_counter import TopicCounter
from proxy.core.stats.topic_usage import TopicUsage
from proxy.core.stats.usage import OTHER
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.record_batches import batch
from tests.support.messages.waiting import asked
from wire.apis import ApiKey
from wire.fetch_topics import FetchTopics
from wire.primitives import INT16, INT32
from wire.topic_counts import REPLY_SHAPES
from wire.varint import encode_uvarint

BODY_AT = 19  # of a frame of tests.support.messages.frames.produce


def flows(book: TopicUsage) -> dict[tuple[str, str], tuple]:
    return {
        (use.user, use.topic): tuple(
            (flow.frames, flow.partitions, flow.size_bytes, flow.batches, flow.records)
            for flow in (use.produced, use.fetched)
        )
        for use in book.take()
    }


def fetched(topic: bytes, field: bytes) -> bytes:
    """Return a Fetch v4 reply frame of one partition."""
    body = struct.pack(">iih", 0, 1, len(topic)) + topic + struct.pack(">i", 1)
    body += struct.pack(">ihqqi", 0, 0, 9, 9, 0) + struct.pack(">i", len(field)) + field
    return f.reply(1, body)


def test_requests_and_replies_add_up_by_user_and_topic() -> None:
    """Two produces and a fetch add to what each user sent to and read from each topic; a new second starts at 0."""
    book = TopicUsage()
    for user, topic in (("alice", "orders"), ("alice", "orders"), ("bob", "paid")):
        book.produced_whole(user, 3, bytearray(f.produce(1, topic=topic)), BODY_AT)
    frame = bytearray(b"x" + fetched(b"orders", batch(3) + batch(4)))
    TopicCounter(book, "alice", api_of(ApiKey.FETCH, 4), 0).fetched(frame, 1, len(frame))

    counted = flows(book)

    assert counted["alice", "orders"][0][:3] == (2, 2, 100)
    assert counted["alice", "orders"][1] == (1, 1, len(batch(3) + batch(4)), 2, 7)
    assert counted["bob", "paid"][0][:3] == (1, 1, 50)
    assert len(counted) == 2
    assert flows(book) == {}


def test_a_streamed_body_is_counted_piece_by_piece() -> None:
    """It is walked as it passes."""
    book = TopicUsage()
    walker = book.walker(3, lenient=True)
    body = f.produce(1)[BODY_AT:]
    for start, end in pairwise([*range(0, len(body), 7), len(body)]):
        walker.feed(body, start, end)
    book.produced("alice", walker)

    assert flows(book)["alice", "t"][0][:3] == (1, 1, 50)


@pytest.mark.parametrize("name", ["AAECAwQFBgcICQoLDA0ODw", "orders"])
def test_a_topic_id_is_shown_by_its_name_once_it_is_known(name: str) -> None:
    """Before that it is shown as Kafka writes it."""
    book = TopicUsage()
    topic_id = bytes(range(16))
    frame = asked(13, [(topic_id, [(0, b"r")])])
    book.names = {topic_id: name} if name == "orders" else {}
    book.produced_whole("a", 13, bytearray(frame), BODY_AT + 1)

    assert list(flows(book)) == [("a", name)]


@pytest.mark.parametrize("cut", [0, 30, 60])
def test_a_malformed_body_adds_nothing(cut: int) -> None:
    """An incomplete or random body is counted as unreadable and raises nothing."""
    book = TopicUsage()
    book.produced_whole("alice", 3, bytearray(f.produce(1)[: BODY_AT + cut]), BODY_AT)
    book.produced_whole("alice", 3, bytearray(b"\xff" * 60), 0)
    TopicCounter(book, "alice", api_of(ApiKey.FETCH, 4), 0).fetched(bytearray(b"\x7f" * 60), 0, 60)

    assert flows(book) == {}
    assert book.unread == 3


def test_a_frame_that_passes_while_pairs_are_forgotten_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its topics were looked up before that, and have one row with those of later frames."""
    monkeypatch.setattr(topic_usage, "MAX_KEYS", 1)
    book = TopicUsage()
    walker = book.walker(3, lenient=True)
    request = bytearray(f.produce(1)[BODY_AT:])
    walker.feed(request, 0, len(request))
    book.fed("alice", walker)
    book.produced_whole("bob", 3, request, 0)
    assert list(flows(book)) == [("bob", "t")]  # and two pairs are too many

    book.produced("alice", walker)
    book.produced_whole("alice", 3, request, 0)

    assert flows(book)["alice", "t"][0][:3] == (2, 2, 100)


def test_pairs_that_are_known_have_a_row_in_each_second_with_usage() -> None:
    """And in no other; what was taken is not changed any more."""
    book = TopicUsage()
    request = bytearray(f.produce(1))
    book.produced_whole("alice", 3, request, BODY_AT)
    (first,) = book.take()
    assert flows(book) == {}
    for _ in range(2):
        book.produced_whole("alice", 3, request, BODY_AT)
    assert flows(book)["alice", "t"][0][:3] == (2, 2, 100)
    assert first.produced.frames == 1


def test_a_counter_counts_frames_of_the_same_topic_and_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In each second, also after the pairs were forgotten."""
    monkeypatch.setattr(topic_usage, "MAX_KEYS", 1)
    book = TopicUsage()
    counter = TopicCounter(book, "alice", api_of(ApiKey.FETCH, 4), 0)
    frames = {name: bytearray(fetched(name, batch(3))) for name in (b"orders", b"paid")}
    for name in (b"orders", b"orders", b"paid", b"paid", b"orders"):
        counter.fetched(frames[name], 0, len(frames[name]))
    size = len(batch(3))
    first = ("alice", "orders"), (3, 3, 3 * size, 3, 9)

    assert {key: each[1] for key, each in flows(book).items()} == dict(
        [first, ((OTHER, OTHER), (2, 2, 2 * size, 2, 6))]
    )
    for second in range(2):
        for _ in range(second + 1):
            counter.fetched(frames[b"paid"], 0, len(frames[b"paid"]))
        assert flows(book)["alice", "paid"][1][0] == second + 1


def test_a_counter_names_a_topic_as_soon_as_its_name_is_known() -> None:
    """Also in frames that are like the last one."""
    book = TopicUsage()
    topic_id = bytes(range(16))
    frame = bytearray(asked(13, [(topic_id, [(0, b"r")])]))
    counter = TopicCounter(book, "a", api_of(ApiKey.PRODUCE, 13), 27)
    names = []
    for known in ({}, {}, {topic_id: "orders"}, {topic_id: "orders"}):
        book.names = known
        assert counter.read(frame, 0, len(frame), 9) > 0
        counter.produced()
        names += [topic for _, topic in flows(book)]

    assert names == 2 * ["AAECAwQFBgcICQoLDA0ODw"] + 2 * ["orders"]


def test_topics_over_the_bound_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums stay right."""
    monkeypatch.setattr(topic_usage, "MAX_KEYS", 3)
    book = TopicUsage()
    for number in range(10):
        book.produced_whole("alice", 3, bytearray(f.produce(1, topic=f"t{number}")), BODY_AT)

    counted = flows(book)

    assert len(counted) == 4
    assert counted[OTHER, OTHER][0][:3] == (7, 7, 350)


def streamed(version: int, fields: list[bytes]) -> bytearray:
    """Return a Fetch reply of one topic, "orders", with these records fields."""
    shape = REPLY_SHAPES[version]
    frame = bytearray(shape.start_bytes) + (b"\x02" if shape.compact else INT32.pack(1))
    if shape.by_id:
        frame += TOPIC_ID
    else:
        frame += (b"\x07" if shape.compact else INT16.pack(6)) + b"orders"
    frame += encode_uvarint(len(fields) + 1) if shape.compact else INT32.pack(len(fields))
    for field in fields:
        frame += bytes(shape.fixed_bytes)
        if shape.has_aborted:
            frame += (b"\x01" if shape.compact else INT32.pack(0)) + bytes(shape.replica_bytes)
        frame += encode_uvarint(len(field) + 1) if shape.compact else INT32.pack(len(field))
        frame += field + bytes(shape.compact)
    return frame + bytes(2 * shape.compact)


TOPIC_ID = bytes(range(16))
RECORDS = [
    b"",
    batch(3),
    batch(3) + batch(5) + batch(2)[:30],
    batch(40, size_bytes=900) + batch(1),
    batch(7)[:60],
    bytes(17),
]
"""Records fields: also one whose last batch is cut, in its head or after it, and one of an old format."""


@given(
    st.integers(4, 18),
    st.lists(st.sampled_from(RECORDS), min_size=1, max_size=4),
    st.integers(0, 1),
    st.data(),
)
def test_a_reply_that_streams_is_counted_alike_however_it_is_cut(
    version: int, fields: list[bytes], damages: int, data: st.DataObject
) -> None:
    """As its topic is known, and as it is not; also if it ends early, or any byte of it is another."""
    frame = streamed(version, fields)
    for _ in range(damages):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    whole = data.draw(st.sampled_from([len(frame), len(frame), len(frame) - 9]))
    cuts = sorted(data.draw(st.lists(st.integers(1, whole - 1), max_size=5)))
    leaves_at = data.draw(
        st.integers(0, 9)
    )  # the piece after which it does not only stream any more

    wanted, book = TopicUsage(), TopicUsage()
    wanted.names = book.names = {TOPIC_ID: "orders"}
    reader = FetchTopics(version)
    for place in range(whole):
        reader.feed(frame, place, place + 1)
    wanted.fetched("alice", reader)
    counter = TopicCounter(book, "alice", api_of(ApiKey.FETCH, version), 0)
    if data.draw(st.booleans()):
        known = streamed(version, [batch(1)])
        counter.fetched(known, 0, len(known))
        assert len(flows(book)) == 1
    counter.begin(frame, 0, cuts[0] if cuts else whole)
    walker = None
    for number, (start, end) in enumerate(pairwise([*cuts, whole])):
        if number == leaves_at:
            walker = counter.take_walker()
        if walker is None:
            counter.follow(frame, start, end)
        else:
            counter.feed(walker, frame, start, end)
    if walker is None:
        counter.end()
    else:
        counter.walked(walker)

    assert flows(book) == flows(wanted)
    assert book.unread == wanted.unread
