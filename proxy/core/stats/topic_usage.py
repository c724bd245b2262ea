"""Counts usage by user and topic in the current second, for the usage records' family `topic` (off by default).

Rules:
- Produce bodies and Fetch replies are parsed while they stream, and never changed. One that cannot be parsed is
  forwarded all the same, and counted in `unread`.
- A request or reply counts when its last byte was forwarded.
- After MAX_KEYS pairs of user and topic in a second, all further pairs share one, OTHER.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from proxy.core.stats.usage import OTHER
from wire.fetch_topics import FetchTopics
from wire.produce_topics import ProduceTopics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wire.apis import Api
    from wire.primitives import Buffer
    from wire.produce import ProduceWalker
    from wire.produce_topics import TopicBytes

MAX_KEYS: Final = 10_000


class Flow:
    """The usage of one direction. `frames` counts requests or replies, `size_bytes` the bytes of record batches."""

    __slots__ = ("batches", "frames", "partitions", "records", "size_bytes")

    def __init__(self) -> None:
        self.frames = 0
        self.partitions = 0
        self.size_bytes = 0
        self.batches = 0
        self.records = 0

    def add(self, seen: TopicBytes) -> None:
        """Add the part of one frame that belongs to the topic."""
        self.frames += 1
        self.partitions += seen.partitions
        self.size_bytes += seen.size_bytes
        self.batches += seen.counter.batches
        self.records += seen.counter.records


class TopicUse:
    """The usage of one topic by one user."""

    __slots__ = ("fetched", "produced", "topic", "user")

    def __init__(self, user: str, topic: str) -> None:
        self.user = user
        self.topic = topic
        self.produced = Flow()
        self.fetched = Flow()


class TopicUsage:
    """Counts topic usage. `unread` is the number of frames that could not be parsed."""

    __slots__ = ("_uses", "unread")

    def __init__(self) -> None:
        self.unread = 0
        self._uses: dict[tuple[str, str], TopicUse] = {}

    def walker(self, version: int, *, lenient: bool) -> ProduceTopics:
        """Return a parser for a streamed Produce body; `lenient` if no other code needs the parsed body."""
        return ProduceTopics(version, lenient=lenient)

    def produced(self, user: str, walker: ProduceWalker, names: Mapping[bytes, str]) -> None:
        """Count a streamed Produce request whose last byte was forwarded."""
        if isinstance(walker, ProduceTopics):
            if walker.broken or not walker.done:
                self.unread += 1
                return
            for seen in walker.per_topic:
                self._use(user, seen.topic, names).produced.add(seen)

    def produced_whole(
        self, user: str, version: int, frame: Buffer, body_at: int, names: Mapping[bytes, str]
    ) -> None:
        """Count a Produce request that was buffered whole and forwarded."""
        walker = self.walker(version, lenient=True)
        walker.feed(frame, body_at, len(frame))
        self.produced(user, walker, names)

    def fetch_walker(self, api: Api) -> FetchTopics:
        """Return a parser for a streamed Fetch reply; feed it the whole frame."""
        return FetchTopics(api.version)

    def fetched(self, user: str, walker: FetchTopics, names: Mapping[bytes, str]) -> None:
        """Count a streamed Fetch reply whose last byte was forwarded."""
        if walker.broken or not walker.done:
            self.unread += 1
            return
        for seen in walker.per_topic:
            self._use(user, seen.topic, names).fetched.add(seen)

    def fetched_whole(
        self, user: str, api: Api, buf: Buffer, start: int, stop: int, names: Mapping[bytes, str]
    ) -> None:
        """Count a forwarded Fetch reply whose whole frame is in `buf[start:stop]`."""
        walker = self.fetch_walker(api)
        walker.feed(buf, start, stop)
        self.fetched(user, walker, names)

    def take(self) -> Sequence[TopicUse]:
        """Return the usage since the last call."""
        uses, self._uses = self._uses, {}
        return tuple(uses.values())

    def _use(self, user: str, topic: str | bytes, names: Mapping[bytes, str]) -> TopicUse:
        if isinstance(topic, bytes):
            # Without a name, the id in Kafka's notation; a Metadata reply nearly always gave the name before.
            topic = names.get(topic) or urlsafe_b64encode(topic).decode().rstrip("=")
        key = (user, topic)
        use = self._uses.get(key)
        if use is None:
            if len(self._uses) >= MAX_KEYS:
                key = (OTHER, OTHER)
                use = self._uses.get(key)
            if use is None:
                use = self._uses[key] = TopicUse(*key)
        return use
