"""Counts usage by user and topic in the current second, for the usage records' family `topic` (off by default).

Rules:
- Produce bodies and Fetch replies are parsed while they stream, and never changed. One that cannot be parsed is
  forwarded all the same, and counted in `unread`.
- A request or reply counts when its last byte was forwarded.
- After MAX_KEYS pairs of user and topic in a second, all further pairs share one, OTHER.
- What a frame has of a topic is added to the pair of user and topic, which is known by the bytes of the topic's name or
  id. Pairs stay known from second to second, so that a frame of very many topics finds them at once. Those of a frame
  that streams are looked up while it does (`look_up`).
- Most frames of a client have one topic, always the same. They are summed up in one call, and added to the same Flow:
  such a frame makes no object, and touches little memory, which is cold at ordinary rates.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from proxy.core.stats.usage import OTHER
from wire import topic_runs
from wire.apis import ApiKey
from wire.fetch_topics import FetchTopics
from wire.produce_topics import ProduceTopics
from wire.topic_counts import (
    REPLY_SHAPES,
    REQUEST_SHAPES,
    count_reply,
    count_request,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wire.apis import Api
    from wire.primitives import Buffer
    from wire.record_batches import TopicCount
    from wire.topic_counts import TopicShape

MAX_KEYS: Final = 10_000


class Flow:
    """The usage of one direction. `frames` counts requests or replies, `size_bytes` the bytes of record batches."""

    __slots__ = ("batches", "frames", "partitions", "records", "size_bytes")

    frames: int
    partitions: int
    size_bytes: int
    batches: int
    records: int

    def add(self, partitions: int, size_bytes: int, batches: int, records: int) -> None:
        """Add the part of one frame that belongs to the topic."""
        self.frames += 1
        self.partitions += partitions
        self.size_bytes += size_bytes
        self.batches += batches
        self.records += records


class TopicUse:
    """The usage of one topic by one user."""

    __slots__ = ("fetched", "produced", "topic", "user")

    user: str
    topic: str
    produced: Flow
    fetched: Flow


class Pair:
    """A user and a topic, and their usage in the last second that had any. `era`: see `TopicUsage.take`."""

    __slots__ = ("era", "second", "topic", "use", "user")

    use: TopicUse
    """Made when `second` is set."""

    def __init__(self, user: str, topic: str, era: int) -> None:
        self.user = user
        self.topic = topic
        self.era = era
        self.second = -1


def _new_use(pair: Pair) -> TopicUse:
    """Return the usage of a pair, without any yet. Constructors are too slow for a frame of very many topics."""
    use = TopicUse.__new__(TopicUse)
    use.user, use.topic = pair.user, pair.topic
    use.produced, use.fetched = _new_flow(), _new_flow()
    return use


def _new_flow() -> Flow:
    flow = Flow.__new__(Flow)
    flow.frames = flow.partitions = flow.size_bytes = flow.batches = flow.records = 0
    return flow


_NO_FLOW: Final = _new_flow()


class UserTopics:
    """The pairs of one user, by the bytes of the topic's name, of its id, and of an id without a name."""

    __slots__ = ("by_id", "by_name", "unnamed")

    def __init__(self) -> None:
        self.by_name: dict[bytes, Pair] = {}
        self.by_id: dict[bytes, Pair] = {}
        self.unnamed: dict[bytes, Pair] = {}


class TopicCounter:
    """Counts the Produces, or the Fetch replies, of one user and one version.

    `topics_at`: where the topics of a request begin, from the frame's start.
    """

    __slots__ = (
        "_batches",
        "_flow",
        "_found",
        "_pair",
        "_partitions",
        "_records",
        "_second",
        "_shape",
        "_size_bytes",
        "_topic",
        "_topics_at",
        "_usage",
        "_user",
        "_version",
    )

    def __init__(self, usage: TopicUsage, user: str, api: Api, topics_at: int) -> None:
        self._usage = usage
        self._user = user
        self._version = api.version
        self._topics_at = topics_at
        self._shape = (REQUEST_SHAPES if api.key == ApiKey.PRODUCE else REPLY_SHAPES)[api.version]
        # The topic that the last whole frame had alone; None: none, or its pair is not the same for all frames.
        self._topic: bytes | None = None
        self._pair = usage.other  # of this topic
        self._flow = _NO_FLOW  # of this pair in `_second`
        self._second = -1
        # What `read` has found: of this topic alone, or of others.
        self._partitions = self._size_bytes = self._batches = self._records = 0
        self._found: list[TopicCount] | None = None

    def read(self, buf: bytearray, pos: int, stop: int, most: int) -> int:
        """Read what the whole Produce in buf[pos:stop] has of each topic, for `produced`; return how much was read.

        That is how many topics, partitions and batches it has. -1: it is not ordinary, or has more than `most` topics
        and partitions.
        """
        topic, shape, at = self._topic, self._shape, pos + self._topics_at
        if topic is not None:
            after, partitions, size_bytes, batches, records = topic_runs.sum_topic(
                buf,
                at,
                stop,
                topic,
                most,
                shape.by_id,
                shape.fixed_bytes,
                shape.has_aborted,
                shape.replica_bytes,
                shape.compact,
            )
            if after >= 0 and after == stop - shape.compact and not (shape.compact and buf[after]):
                self._found = None
                self._partitions, self._size_bytes = partitions, size_bytes
                self._batches, self._records = batches, records
                return 1 + partitions + batches
        self._found = counts = count_request(shape, buf, at, stop, most)
        if counts is None:
            return -1
        steps = 0
        for count in counts:
            steps += 1 + count.partitions + count.batches
        return steps

    def produced(self) -> None:
        """Count the Produce that was read last, because it was forwarded."""
        counts = self._found
        if counts is None:
            if self._second != self._usage.second:
                self._begin_second(self._usage.use(self._pair).produced)
            self._flow.add(self._partitions, self._size_bytes, self._batches, self._records)
        else:
            self._usage.add_produced(self._user, self._shape, counts)
            self._know_only(counts)

    def fetched(self, buf: bytearray, start: int, stop: int) -> None:
        """Count a forwarded Fetch reply whose whole frame is in `buf[start:stop]`."""
        topic, shape, at = self._topic, self._shape, start + self._shape.start_bytes
        most: int = topic_runs.MAX_FEED_STEPS
        if topic is not None and at <= stop and not (shape.compact and buf[start + 8]):
            after, partitions, size_bytes, batches, records = topic_runs.sum_topic(
                buf,
                at,
                stop,
                topic,
                most,
                shape.by_id,
                shape.fixed_bytes,
                shape.has_aborted,
                shape.replica_bytes,
                shape.compact,
            )
            if after >= 0:
                if self._second != self._usage.second:
                    self._begin_second(self._usage.use(self._pair).fetched)
                self._flow.add(partitions, size_bytes, batches, records)
                return
        counts = count_reply(shape, buf, start, stop, most)
        if counts is not None:
            self._usage.add_fetched(self._user, shape, counts)
            self._know_only(counts)
        else:
            walker = self.walker()
            walker.feed(buf, start, stop)
            self.walked(walker)

    def _begin_second(self, flow: Flow) -> None:
        self._flow, self._second = flow, self._usage.second

    def _know_only(self, counts: list[TopicCount]) -> None:
        """Know the only one of these topics, if its pair is the same for all frames."""
        if len(counts) == 1 and self._usage.is_lasting(counts[0], self._shape):
            self._topic, self._pair, self._second = counts[0].topic, counts[0].owner, -1

    def walker(self) -> FetchTopics:
        """Return a parser for a Fetch reply that streams; feed it the whole frame."""
        return FetchTopics(self._version)

    def feed(self, walker: FetchTopics, buf: bytearray, start: int, end: int) -> None:
        """Let the walker of a reply take its next bytes buf[start:end]."""
        self._usage.feed(self._user, walker, buf, start, end)

    def walked(self, walker: FetchTopics) -> None:
        """Count a Fetch reply that streamed, after its last byte."""
        self._usage.fetched(self._user, walker)


class TopicUsage:
    """Counts topic usage. `unread` is the number of frames that could not be parsed. `names`: topics by their ids.

    `era` grows when the pairs are forgotten, `second` with each `take`. `other`: the pair of those that are too many.
    """

    __slots__ = ("_pairs", "_users", "_uses", "era", "names", "other", "second", "unread")

    def __init__(self) -> None:
        self.unread = 0
        self.names: Mapping[bytes, str] = {}
        self._uses: list[TopicUse] = []  # of the current second
        self._users: dict[str, UserTopics] = {}
        self._pairs = 0
        self.second = 0
        self.era = 0
        self.other = Pair(OTHER, OTHER, 0)

    def counter(self, user: str, api: Api, topics_at: int) -> TopicCounter:
        """Return what counts the requests of this user and API that are alike, or the replies to them."""
        return TopicCounter(self, user, api, topics_at)

    # -- requests --------------------------------------------------------------------------------

    def walker(self, version: int, lenient: bool) -> ProduceTopics:  # noqa: FBT001 - no C call has keywords
        """Return a parser for a streamed Produce body; `lenient` if no other code needs the parsed body."""
        return ProduceTopics(version, lenient=lenient)

    def fed(self, user: str, walker: ProduceTopics) -> None:
        """Look up the topics that a walker has read meanwhile: very many are not looked up all at once."""
        self.look_up(user, walker.shape, walker.per_topic)

    def produced(self, user: str, walker: ProduceTopics) -> None:
        """Count a streamed Produce request whose last byte was forwarded."""
        if walker.broken or not walker.done:
            self.unread += 1
        else:
            self.add_produced(user, walker.shape, walker.per_topic)

    def produced_whole(self, user: str, version: int, frame: Buffer, body_at: int) -> None:
        """Count a Produce request that was buffered whole and forwarded."""
        walker = self.walker(version, True)
        walker.feed(frame, body_at, len(frame))
        self.produced(user, walker)

    def add_produced(self, user: str, shape: TopicShape, counts: list[TopicCount]) -> None:
        """Count a Produce request that has these topics."""
        if not self.look_up(user, shape, counts):
            self.unread += 1
            return
        for count in counts:
            flow = self.use(count.owner).produced
            flow.add(count.partitions, count.size_bytes, count.batches, count.records)

    # -- replies ---------------------------------------------------------------------------------

    def feed(self, user: str, walker: FetchTopics, buf: bytearray, start: int, end: int) -> None:
        """Let the walker of a reply take its next bytes buf[start:end], and look up the topics in them."""
        walker.feed(buf, start, end)
        self.look_up(user, walker.shape, walker.per_topic)

    def fetched(self, user: str, walker: FetchTopics) -> None:
        """Count a streamed Fetch reply whose last byte was forwarded."""
        if walker.broken or not walker.done:
            self.unread += 1
        else:
            self.add_fetched(user, walker.shape, walker.per_topic)

    def add_fetched(self, user: str, shape: TopicShape, counts: list[TopicCount]) -> None:
        """Count a Fetch reply that has these topics."""
        if not self.look_up(user, shape, counts):
            self.unread += 1
            return
        for count in counts:
            flow = self.use(count.owner).fetched
            flow.add(count.partitions, count.size_bytes, count.batches, count.records)

    # -- pairs -----------------------------------------------------------------------------------

    def look_up(self, user: str, shape: TopicShape, counts: list[TopicCount]) -> bool:
        """Find the pairs of the newest of these topics. False: the name of one is not text."""
        topics = self._users.get(user)
        for count in reversed(counts):
            if count.owner is not None:
                break
            pair: Pair | None = None
            if topics is not None:
                pair = (topics.by_id if shape.by_id else topics.by_name).get(count.topic)
            if pair is None:
                try:
                    pair = self._named(user, count.topic, shape)
                except UnicodeDecodeError:
                    return False
                topics = self._users.get(user)
            count.owner = pair
        return True

    def is_lasting(self, count: TopicCount, shape: TopicShape) -> bool:
        """Return whether the topic of `count`, which was looked up, has the same pair until pairs are forgotten."""
        pair: Pair | None = count.owner
        return (
            pair is not None
            and pair is not self.other
            and not (shape.by_id and count.topic not in self._users[pair.user].by_id)
        )

    def _named(self, user: str, topic: bytes, shape: TopicShape) -> Pair:
        """Return the pair of a name or id that is not known yet, and know it from now on."""
        if not shape.by_id:
            return self._pair(user, topic.decode())
        topics, name = self._users.get(user), self.names.get(topic)
        if not name:
            # The id in Kafka's notation; a Metadata reply nearly always gave the name before.
            if topics is not None and topic in topics.unnamed:
                return topics.unnamed[topic]
            name = urlsafe_b64encode(topic).decode().rstrip("=")
        pair = self._pair(user, name)
        if pair is not self.other:
            topics = self._users[user]
            (topics.by_id if self.names.get(topic) else topics.unnamed)[topic] = pair
        return pair

    def _pair(self, user: str, topic: str) -> Pair:
        topics, name = self._users.get(user), topic.encode()
        pair = None if topics is None else topics.by_name.get(name)
        if pair is None:
            if self._pairs >= 2 * MAX_KEYS:
                return self.other
            if topics is None:
                topics = self._users[user] = UserTopics()
            pair = topics.by_name[name] = Pair(user, topic, self.era)
            self._pairs += 1
        return pair

    def use(self, pair: Pair) -> TopicUse:
        """Return the usage of a pair in this second."""
        if pair.second != self.second:
            if pair.era != self.era:
                return self.use(self._pair(pair.user, pair.topic))
            if len(self._uses) >= MAX_KEYS and pair is not self.other:
                return self.use(self.other)
            pair.second = self.second
            pair.use = _new_use(pair)
            self._uses.append(pair.use)
        return pair.use

    def take(self) -> Sequence[TopicUse]:
        """Return the usage since the last call. If there are many pairs, forget them, because most may be idle.

        A frame that passes meanwhile may know pairs of an earlier era. They are looked up again.
        """
        uses, self._uses = self._uses, []
        self.second += 1
        if self._pairs > MAX_KEYS:
            self._users = {}
            self._pairs = 0
            self.era += 1
            self.other.era = self.era
        return uses
