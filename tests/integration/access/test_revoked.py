"""A right that a change of the rules takes away ends at once: in a long poll, a share session, a group.

The verdicts hang on what comes after what, not on the machine's speed. A wait that is not cut takes WAIT_MS.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from tests.integration.access.conftest import Prepared
from tests.support.access.attempts import MALLORY
from tests.support.access.guarded_kafka import through
from tests.support.access.real_clients import READS, SECURITY, SOON_SECONDS, TOPIC, Guarded
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since

pytestmark = since(4, 4)

WAIT_MS: Final = 30_000
OTHER: Final = {"groups": {"other": ["read"]}}


def test_a_long_fetch_of_a_revoked_topic_ends(guarded: Guarded) -> None:
    """A consumer waits 30 s at the broker for a record; its right goes, the wait is cut, and the next is refused."""
    guarded.allow(READS)
    part = {"partition": 1, "fetch_offset": 1_000_000, "partition_max_bytes": 1000}
    part |= {"current_leader_epoch": -1}
    with through(guarded.sluice, MALLORY) as speaker:
        (topic,) = speaker.ask("ListOffsets", 6, topics=[_end(TOPIC)], replica_id=-1).topics
        part["fetch_offset"] = topic.partitions[0].offset
        fetch = {
            "max_wait": WAIT_MS,
            "min_bytes": 1,
            "replica_id": -1,
            "topics": [{"topic": TOPIC, "partitions": [part]}],
        }
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(speaker.ask, "Fetch", 11, **fetch)
            guarded.allow(OTHER)
            (answered,) = _first(waiting.result()) or (0,)
        assert answered in {0, 29}  # as it came before the change or after it
        assert time.monotonic() - began < WAIT_MS / 1000
        assert _first(speaker.ask("Fetch", 11, **fetch)) == [29]


def _end(topic: str) -> dict[str, Any]:
    return {"name": topic, "partitions": [{"partition_index": 1, "timestamp": -1}]}


def _first(reply: Any) -> list[int]:
    return [int(part.error_code) for each in reply.responses for part in each.partitions]


def test_a_share_session_of_a_revoked_topic_ends(guarded: Guarded, prepared: Prepared) -> None:
    """Its next fetch, which names no topic, is told that the session is gone; a new one is refused the topic."""
    guarded.allow(READS)
    topic_id = prepared.topic_ids[TOPIC]
    member = "00000000-0000-4000-8000-0000000000aa"
    with through(guarded.sluice, MALLORY) as speaker:
        joined = speaker.ask(
            *("ShareGroupHeartbeat", 1),
            group_id="mallory-session",
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=[TOPIC],
        )
        assert joined.error_code == 0
        fetch = {
            "group_id": "mallory-session",
            "member_id": member,
            "max_wait": 100,
            "min_bytes": 0,
            "max_bytes": 1000,
            "max_records": 1,
            "batch_size": 1,
        }
        topics = [
            {
                "topic_id": topic_id,
                "partitions": [{"partition_index": 1, "acknowledgement_batches": []}],
            }
        ]
        first = speaker.ask("ShareFetch", 1, share_session_epoch=0, topics=topics, **fetch)
        assert first.error_code == 0
        guarded.allow({"groups": {"mallory-*": ["read"]}})
        again = speaker.ask("ShareFetch", 1, share_session_epoch=1, topics=[], **fetch)
        assert again.error_code == 122  # SHARE_SESSION_NOT_FOUND
        opened = speaker.ask("ShareFetch", 1, share_session_epoch=0, topics=topics, **fetch)
        assert _first(opened) == [29]


def test_a_member_of_a_revoked_group_is_refused_at_its_next_heartbeat(guarded: Guarded) -> None:
    """Librdkafka's consumer, which reads, is told so within seconds: it sends heartbeats and fetches on."""
    guarded.allow(READS)
    consumer = Consumer(
        {
            "bootstrap.servers": guarded.bootstrap,
            "group.id": "mallory-revoked",
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": WAIT_MS,
            "auto.offset.reset": "latest",
            **SECURITY.librdkafka(),
        }
    )
    try:
        consumer.subscribe([TOPIC])
        await_that(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "a member")
        guarded.allow(OTHER)
        began = time.monotonic()
        codes: set[int] = set()
        while not codes & {29, 30}:
            assert time.monotonic() - began < SOON_SECONDS, codes
            message = consumer.poll(0.1)
            if message is not None and message.error():
                codes.add(message.error().code())
    finally:
        with suppress(KafkaException):
            consumer.close()
