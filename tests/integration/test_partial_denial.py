"""A denied topic beside an allowed one, with a real Kafka: the allowed one is as if it were alone."""

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

RECORDS = 200
SECRET = b"written before, and not through Sluice"
VALUES = [b"%d" % number for number in range(RECORDS)]


def kafka_python_writes(bootstrap: str, denied: str, allowed: str) -> tuple[int, int]:
    """Write to both topics in common requests; return how many records were acknowledged of each.

    Not idempotent: then this library gives up all its batches after any refusal of a topic.
    """
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        linger_ms=20,
        acks="all",
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,
    )
    sent = [(t, producer.send(t, value)) for value in VALUES for t in (denied, allowed)]
    producer.flush(60)
    acked = {denied: 0, allowed: 0}
    for topic, future in sent:
        try:
            future.get(60)
        except TopicAuthorizationFailedError:
            assert topic == denied
        else:
            acked[topic] += 1
    producer.close()
    return acked[denied], acked[allowed]


def librdkafka_writes(bootstrap: str, denied: str, allowed: str) -> tuple[int, int]:
    """Do the same with librdkafka."""
    acked = {denied: 0, allowed: 0}

    def delivered(error: KafkaError | None, message: object) -> None:
        topic = message.topic()  # type: ignore[attr-defined] # a Message
        if error is None:
            acked[topic] += 1
        else:
            assert (topic, error.name()) == (denied, "TOPIC_AUTHORIZATION_FAILED")

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True}
    )
    for value in VALUES:
        for topic in (denied, allowed):
            producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(60) == 0
    return acked[denied], acked[allowed]


def librdkafka_reads(bootstrap: str, denied: str, allowed: str) -> tuple[list[bytes], bool]:
    """Read both topics; return the values, and whether the denied topic was reported."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in (denied, allowed)])
    values: list[bytes] = []
    refused = False

    def all_read() -> bool:
        nonlocal refused
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None:
            error = message.error()
            assert (message.topic(), error.name()) == (denied, "TOPIC_AUTHORIZATION_FAILED")
            refused = True
        elif message is not None:
            values.append(message.value())
        return refused and len(values) >= RECORDS

    await_that(all_read, "all records")
    consumer.close()
    return values, refused


def test_what_is_allowed_is_written_and_read_once_and_in_order(
    kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """For the producers of two libraries, one idempotent, and a consumer; nothing of the denied topic passes."""
    topics = Topics(kafka_one.bootstrap, 1)
    places = {library: (topics.make(), topics.make()) for library in ("python", "librdkafka")}
    denied = [pair[0] for pair in places.values()]
    direct = Producer({"bootstrap.servers": kafka_one.bootstrap})
    for topic in denied:
        direct.produce(topic, SECRET)
    assert direct.flush(60) == 0
    # Visible, so that clients ask for both topics in one request.
    rules: list[dict[str, object]] = [
        {
            "who": ["ANONYMOUS"],
            "topics": {"*": ["all"]},
            "groups": {"*": ["all"]},
            "cluster": ["idempotent-write"],
        },
        {
            "who": ["ANONYMOUS"],
            "effect": "deny",
            "topics": {topic: ["read", "write"] for topic in denied},
        },
    ]
    settings: dict[str, object] = {"policies": [{"use": "access", "config": {"rules": rules}}]}
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice:
        written = [
            kafka_python_writes(sluice.bootstrap, *places["python"]),
            librdkafka_writes(sluice.bootstrap, *places["librdkafka"]),
        ]
        assert written == [(0, RECORDS)] * 2
        for denied_topic, allowed_topic in places.values():
            assert [read.value for read in topics.contents(denied_topic)] == [SECRET]
            assert [read.value for read in topics.contents(allowed_topic)] == VALUES

        assert librdkafka_reads(sluice.bootstrap, *places["librdkafka"]) == (VALUES, True)
