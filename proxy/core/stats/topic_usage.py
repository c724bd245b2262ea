"""Counts usage by user and topic in the current second, for the usage records' family `topic` (off by default).

Rules:
- Produce bodies and Fetch replies are parsed while they stream, and never changed. One that cannot be parsed is
  forwarded all the same, and counted in `unread`.
- A request or reply counts when its last byte was forwarded.
- After MAX_KEYS pairs of user and topic in a second, all further pairs share one, OTHER.
- What a frame has of a topic is added to the pair of user and topic, which is known by the bytes of the topic's name or
  id. Pairs stay known from second to second, so that a frame of very many topics finds them at once. Those of a frame
  that streams are looked up while it does (`look_up`).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from proxy.core.stats.usage import OTHER
from wire.produce_topics import ProduceTopics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wire.fetch_topics import FetchTopics
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


NO_FLOW: Final = _new_flow()
"""The counts of a user and topic that has none yet."""


class UserTopics:
    """The pairs of one user, by the bytes of the topic's name, of its id, and of an id without a name."""

    __slots__ = ("by_id", "by_name", "unnamed")

    def __init__(self) -> None:
        self.by_name: dict[bytes, Pair] = {}
        self.by_id: dict[bytes, Pair] = {}
        self.unnamed: dict[bytes, Pair] = {}


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
