"""`access` by client ids before a real Kafka: attempts of two client families, with and without a right."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError as PythonError

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

GOOD, BAD = "good-1", "bad-1"
"""Client ids. The rules allow the first everything below `t-`; the second may read it in no group."""
SOME = "some-1"
"""It may use some groups."""
ALL = {"*": ["all"]}
RULES = [
    {"who": ["client:good-*"], "topics": ALL, "groups": ALL},
    {"who": ["client:bad-*"], "topics": {"*": ["read"]}, "cluster": ["idempotent-write"]},
    {"who": ["client:some-*"], "topics": ALL, "groups": {"mine-*": ["all"]}},
]
LONG_SECONDS = 60
Attempt = Callable[[str, str, str], str]
"""Takes the bootstrap address, the client id and the topic; returns "" or the error."""


@pytest.fixture(scope="module")
def guarded(
    kafka_one: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SluiceProcess]:
    """A Sluice with the rules."""
    settings: dict[str, object] = {"policies": [{"use": "access", "config": {"rules": RULES}}]}
    folder = tmp_path_factory.mktemp("client_ids")
    with SluiceProcess(kafka_one.bootstrap, folder, settings=settings) as sluice:
        yield sluice


def python_writes(bootstrap: str, client_id: str, topic: str) -> str:
    """A record by kafka-python, which does not retry a refusal."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id)
    try:
        producer.send(topic, b"x").get(LONG_SECONDS)
    except PythonError as error:
        return type(error).__name__
    finally:
        producer.close()
    return ""


def librdkafka_joins(bootstrap: str, client_id: str, topic: str) -> str:
    """A consumer group of librdkafka."""
    config = {"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": f"g-{topic}"}
    consumer = Consumer(config)
    consumer.subscribe([topic])
    try:
        while not consumer.assignment():
            message = consumer.poll(0.2)
            if message is not None and message.error():
                return str(message.error().name())
    finally:
        consumer.close()
    return ""


def librdkafka_creates(bootstrap: str, client_id: str, topic: str) -> str:
    """CreateTopics by librdkafka, of a topic with a new name."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})
    (made,) = admin.create_topics([NewTopic(f"{topic}-new", 1)]).values()
    try:
        made.result(LONG_SECONDS)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        (python_writes, "TopicAuthorizationFailedError"),
        (librdkafka_joins, "GROUP_AUTHORIZATION_FAILED"),
        (librdkafka_creates, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_client_sees_why_it_may_not(
    attempt: Attempt, error: str, guarded: SluiceProcess, kafka_one: KafkaCluster
) -> None:
    """The one without a rule gets the error of Kafka's own authorization; the other notices nothing."""
    topic = Topics(kafka_one.bootstrap, 1).make()

    assert attempt(guarded.bootstrap, BAD, topic) == error
    assert attempt(guarded.bootstrap, GOOD, topic) == ""


def test_a_request_of_several_groups_is_divided(guarded: SluiceProcess) -> None:
    """The broker answers for those that the client may use, and Sluice for the others, as Kafka would."""
    admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap, client_id=SOME)
    try:
        (node,) = [each["broker_id"] for each in admin.describe_cluster()["brokers"]]
        groups = ["mine-a", "not-mine", "mine-b"]
        found = admin.delete_groups(groups, group_coordinator_id=node)
    finally:
        admin.close()
    assert found.pop("not-mine") == "GroupAuthorizationFailedError"
    assert found.keys() == {"mine-a", "mine-b"}
    # the second if the broker has not yet had a group, and so no topic of offsets
    assert set(found.values()) <= {"GroupIdNotFoundError", "NotCoordinatorError"}
