"""Consumers that subscribe to `^.*` read the ordinary topics, and never meet Kafka's own."""

from typing import Final

from confluent_kafka import Consumer, KafkaException

from tests.support.access.real_clients import SECURITY, SOON_SECONDS, TOPIC, Guarded
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since

pytestmark = since(4, 4)

READS_ALL: Final = {"topics": {"*": ["read"]}, "groups": {"mallory-*": ["read"]}}


class Member:
    """A consumer of the new protocol (KIP-848)."""

    def __init__(self, guarded: Guarded, pattern: str) -> None:
        self.read: set[str] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": guarded.bootstrap,
                "group.id": "mallory-all",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                **SECURITY.librdkafka(),
            }
        )
        self._consumer.subscribe([pattern])

    def owned(self) -> set[tuple[str, int]]:
        """Return the assigned partitions, after a poll. Raises KafkaException for an error."""
        message = self._consumer.poll(0.1)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            self.read.add(message.topic())
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


def test_a_pattern_selects_no_internal_topic(guarded: Guarded) -> None:
    """One member has all ordinary partitions; a second one takes its half, and gives it back when it leaves."""
    guarded.allow(READS_ALL)
    first = Member(guarded, "^.*")
    try:
        await_that(lambda: first.owned() and TOPIC in first.read, "records", SOON_SECONDS)
        every = first.owned()
        assert not {topic for topic, _ in every if topic.startswith("__")}
        second = Member(guarded, "^.*")
        try:

            def is_shared() -> bool:
                owned, others = first.owned(), second.owned()
                return owned | others == every and abs(len(owned) - len(others)) <= 1

            await_that(is_shared, "a fair share", SOON_SECONDS)
        finally:
            second.close()
        await_that(lambda: first.owned() == every, "all partitions again", SOON_SECONDS)
        for _ in range(20):  # an error would come now
            first.owned()
    finally:
        first.close()
