"""`access` before a real Kafka: two client families list topics and groups, and look for topics that do not exist.

The broker creates topics that clients ask for. The client `shy` may read some topics; the client `good` may do all.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError as PythonError

from policies import messages
from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import running
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import ApiKey

GOOD, SHY = "good", "shy"
"""Client ids. The first may do everything."""
RULES = [
    {"who": [f"client:{GOOD}"], "topics": {"*": ["all"]}, "groups": {"*": ["all"]}},
    {"who": [f"client:{SHY}"], "topics": {"seen-*": ["read"]}, "groups": {"seen-*": ["read"]}},
]
TOPICS, GROUPS = ["hidden-topic", "seen-topic"], ["hidden-group", "seen-group"]
PAGED = {"a-hidden": 3, "seen-a": 3, "seen-b": 1, "seen-b-": 2, "z-hidden": 2}
"""Topics that are paged through besides, with their partitions."""
LONG_SECONDS = 60
NOT_LOADED = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR)
Listing = Callable[[str, str], list[str]]
"""Takes the bootstrap address and the client id."""
Asking = Callable[[str, str, str], None]
"""Takes the topic that does not exist, too."""


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that creates topics when clients ask for their metadata, with two topics and two groups."""
    settings = {"auto.create.topics.enable": "true"}
    folder = tmp_path_factory.mktemp("creating")
    for cluster in running(KafkaCluster(folder, 1, 79, kafka_java(), settings=settings)):
        topics = Topics(cluster.bootstrap, 1)
        for topic, group in zip(TOPICS, GROUPS, strict=True):
            producer = Producer({"bootstrap.servers": cluster.bootstrap})
            producer.produce(topic, b"x")
            assert producer.flush(LONG_SECONDS) == 0
            topics.await_leaders(topic, 1)
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            await_that(partial(commits, consumer, topic), f"the first offset of {group}")
            consumer.close()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in admin.create_topics([NewTopic(*each, 1) for each in PAGED.items()]).values():
            made.result(LONG_SECONDS)
        for topic, partitions in PAGED.items():
            topics.await_leaders(topic, partitions)
        yield cluster


def commits(consumer: Consumer, topic: str) -> bool:
    """Try to commit; return False until the broker has loaded the group's partition, which it has just made."""
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    except KafkaException as refused:
        if refused.args[0].code() not in NOT_LOADED:
            raise
        return False
    return True


@pytest.fixture(scope="module")
def sluice(
    creating: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SluiceProcess]:
    """A Sluice with the rules."""
    settings: dict[str, object] = {"policies": [{"use": "access", "config": {"rules": RULES}}]}
    folder = tmp_path_factory.mktemp("sluice")
    with SluiceProcess(creating.bootstrap, folder, settings=settings) as process:
        yield process


def python_topics(bootstrap: str, client_id: str) -> list[str]:
    """By kafka-python."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id)
    try:
        return list(admin.list_topics())
    finally:
        admin.close()


def python_groups(bootstrap: str, client_id: str) -> list[str]:
    """By kafka-python."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id)
    try:
        return [
            re.findall(r"(?:hidden|seen)-group", str(group))[0] for group in admin.list_groups()
        ]
    finally:
        admin.close()


def librdkafka_topics(bootstrap: str, client_id: str) -> list[str]:
    """By librdkafka."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})
    return list(admin.list_topics(timeout=LONG_SECONDS).topics)


def librdkafka_groups(bootstrap: str, client_id: str) -> list[str]:
    """By librdkafka."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})
    return [each.group_id for each in admin.list_consumer_groups().result(LONG_SECONDS).valid]


def ours(names: list[str]) -> list[str]:
    """The names without Kafka's own topics, and those that other tests here have made."""
    return sorted(each for each in names if each in {*TOPICS, *GROUPS})


@pytest.mark.parametrize("listing", [python_topics, librdkafka_topics])
def test_a_client_lists_the_topics_that_it_may_see(listing: Listing, sluice: SluiceProcess) -> None:
    """A hidden topic is not there at all, with no error; the client with all rights sees all."""
    assert ours(listing(sluice.bootstrap, SHY)) == TOPICS[1:]
    assert "__consumer_offsets" not in listing(sluice.bootstrap, SHY)
    assert ours(listing(sluice.bootstrap, GOOD)) == TOPICS


@pytest.mark.parametrize("listing", [python_groups, librdkafka_groups])
def test_a_client_lists_the_groups_that_it_may_see(listing: Listing, sluice: SluiceProcess) -> None:
    """As topics."""
    assert ours(listing(sluice.bootstrap, SHY)) == GROUPS[1:]
    assert ours(listing(sluice.bootstrap, GOOD)) == GROUPS


def python_asks(bootstrap: str, client_id: str, topic: str) -> None:
    """A producer of kafka-python looks for the partitions."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, max_block_ms=4_000)
    try:
        with suppress(PythonError):
            producer.partitions_for(topic)
    finally:
        producer.close()


def librdkafka_asks(bootstrap: str, client_id: str, topic: str) -> None:
    """A producer of librdkafka."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": client_id, "message.timeout.ms": 4_000}
    )
    producer.produce(topic, b"x")
    producer.flush(LONG_SECONDS)


@pytest.mark.parametrize("ask", [python_asks, librdkafka_asks])
def test_asking_for_a_topic_creates_it_only_for_a_client_that_may(
    ask: Asking, sluice: SluiceProcess, creating: KafkaCluster
) -> None:
    """Before the same broker, whose setting creates topics."""
    admin = AdminClient({"bootstrap.servers": creating.bootstrap})
    for client_id in (SHY, GOOD):
        topic = f"seen-{ask.__name__}-{client_id}".replace("_", "-")
        ask(sluice.bootstrap, client_id, topic)
        there = admin.list_topics(timeout=LONG_SECONDS).topics
        assert (topic in there) == (client_id == GOOD)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_client_pages_through_the_topics_that_it_may_see(
    limit: int, sluice: SluiceProcess
) -> None:
    """Each partition once, whatever the size of a page; the broker understands the cursors that Sluice has changed."""
    fields: dict[str, Any] = {"topics": [], "response_partition_limit": limit}
    api = api_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    seen: list[tuple[str, int]] = []
    with Talk(int(sluice.bootstrap.rpartition(":")[2])) as talk:
        for _ in range(100):
            body = messages.encode(messages.make_request(api, fields))
            frame = f.request(api.key, 0, talk.next_id(), body, client_id=SHY, tagged=True)
            talk.send(frame)
            reply = talk.receive()
            assert reply is not None
            assert b"hidden" not in reply
            page = messages.decode_response(api, reply[1:])
            seen += [
                (topic.name, each.partition_index)
                for topic in page.topics
                for each in topic.partitions
            ]
            if page.next_cursor is None:
                break
            following = page.next_cursor
            fields["cursor"] = {
                "topic_name": following.topic_name,
                "partition_index": following.partition_index,
            }
    shown = {each: count for each, count in PAGED.items() if each.startswith("seen-")}
    wanted = [(each, number) for each, count in shown.items() for number in range(count)]
    assert sorted(each for each in seen if each[0] in PAGED) == sorted(wanted)
    assert len(seen) == len(set(seen))
