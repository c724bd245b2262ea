"""Counts the Produces, or the Fetch replies, of one session and plan for the usage by topic.

Rules:
- Most frames of a client have one topic, always the same. They are summed up in one call, and added to the same Flow:
  such a frame makes no object, and touches little memory, which is cold at ordinary rates. So is a Fetch reply of that
  topic which comes in several reads, as a broker sends it: its head, and then the records.
- All other frames are counted topic by topic, and those that are not ordinary element by element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.stats.topic_usage import NO_FLOW
from wire import topic_runs
from wire.apis import ApiKey
from wire.fetch_topics import FetchTopics
from wire.record_batches import new_count
from wire.topic_counts import REPLY_SHAPES, REQUEST_SHAPES, count_reply, count_request

if TYPE_CHECKING:
    from proxy.core.stats.topic_usage import Flow, TopicUsage
    from wire.apis import Api
    from wire.record_batches import TopicCount


class TopicCounter:
    """Counts the Produces, or the Fetch replies, of one user and one version.

    `topics_at`: where the topics of a request begin, from the frame's start. It belongs to one session, so one reply
    at a time streams through it (`begin`, `follow`, `end`).
    """

    __slots__ = (
        "_batch_bytes",
        "_batches",
        "_field_bytes",
        "_flow",
        "_found",
        "_left",
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
        "_walker",
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
        self._flow = NO_FLOW  # of this pair in `_second`
        self._second = -1
        # Where a reply that streams is, see `topic_runs.follow_topic`, or what reads one that is not ordinary.
        self._left = self._field_bytes = self._batch_bytes = 0
        self._walker: FetchTopics | None = None
        # What `read` has found, or `follow` so far: of this topic alone. Or of others.
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
        self._know_only(walker.per_topic)

    # -- a reply that only streams ---------------------------------------------------------------

    def begin(self, buf: bytearray, start: int, end: int) -> None:
        """Begin to read a Fetch reply of which buf[start:end] is here."""
        topic, shape, at = self._topic, self._shape, start + self._shape.start_bytes
        most: int = topic_runs.MAX_FEED_STEPS
        self._walker = None
        if topic is not None and at <= end and not (shape.compact and buf[start + 8]):
            left, at = topic_runs.find_topic(buf, at, end, topic, shape.by_id, shape.compact)
            if 0 < left < most:
                self._left, self._field_bytes, self._batch_bytes = left, 0, 0
                self._partitions = self._size_bytes = self._batches = self._records = 0
                self.follow(buf, at, end)
                return
        self._walker = self.walker()
        self.feed(self._walker, buf, start, end)

    def follow(self, buf: bytearray, start: int, end: int) -> None:
        """Read the next bytes of that reply, buf[start:end]."""
        if self._walker is None:
            shape = self._shape
            start, left, field_bytes, batch_bytes, partitions, size_bytes, batches, records = (
                topic_runs.follow_topic(
                    buf,
                    start,
                    end,
                    self._left,
                    self._field_bytes,
                    self._batch_bytes,
                    shape.fixed_bytes,
                    shape.has_aborted,
                    shape.replica_bytes,
                    shape.compact,
                )
            )
            self._left, self._field_bytes, self._batch_bytes = left, field_bytes, batch_bytes
            self._partitions += partitions
            self._size_bytes += size_bytes
            self._batches += batches
            self._records += records
            if start == end or left < 0:
                return
            self._walker = self._resumed()
        self.feed(self._walker, buf, start, end)

    def end(self) -> None:
        """Count that reply, after its last byte."""
        if self._walker is not None:
            self.walked(self.take_walker())
        elif self._left >= 0:
            self._usage.unread += 1
        else:
            if self._second != self._usage.second:
                self._begin_second(self._usage.use(self._pair).fetched)
            self._flow.add(self._partitions, self._size_bytes, self._batches, self._records)

    def take_walker(self) -> FetchTopics:
        """Return what reads on in that reply: it does not only stream any more."""
        walker, self._walker = self._walker, None
        return self._resumed() if walker is None else walker

    def _resumed(self) -> FetchTopics:
        """Return a parser that is where `follow` is."""
        count = new_count(self._topic or b"")
        count.owner = self._pair
        count.partitions, count.size_bytes = self._partitions, self._size_bytes
        count.batches, count.records = self._batches, self._records
        walker = self.walker()
        walker.resume(count, self._left, self._field_bytes, self._batch_bytes)
        return walker
