"""T29: a rule walked around: topic ids, fetch sessions, share groups, transactions, auto-creation.

The policy `access` judges each name, and an id by its name; an id without a known name is refused. Through Sluice no
record of a denied topic is written or read, whichever request asks for it, and no client library finds another way.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import KafkaError

from policies.access.policy import Access
from policies.api import FORWARD, Forward
from policies.testing import PolicyBench
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.one_kafka import java, kafka_one, work  # noqa: F401 - fixtures
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER
from tests.support.processes.measured import tell
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import OFFERED, find, name_of
from wire.authorization import ResourceType, checks_of, is_authorized

ROOT = Path(__file__).resolve().parents[2]
SECRET = "secret"  # noqa: S105 - the name of a topic
SECONDS = 15
_serial = itertools.count(1)
ALL = ["all"]
DENY = {
    "rules": [
        {
            "who": ["ANONYMOUS"],
            "topics": {"*": ALL},
            "groups": {"*": ALL},
            "transactions": {"*": ALL},
            "cluster": ALL,
        },
        {"who": ["ANONYMOUS"], "effect": "deny", "topics": {f"{SECRET}*": ALL}},
    ]
}
Attempt = Callable[[str, str], int]
"""Takes the bootstrap address and the topic; returns how many of its records were read."""


def versions() -> Iterator[tuple[str, int]]:
    """Yield each API and offered version whose requests can name a topic."""
    for key, (first, last) in sorted(OFFERED.items()):
        for version in range(first, last + 1):
            api = find(key, version)
            checks = checks_of(api) if api is not None and is_authorized(api) else ()
            if any(check.kind is ResourceType.TOPIC for check in checks):
                yield name_of(key), version


def test_no_version_of_any_api_passes_a_denied_topic() -> None:
    """By its name or its id: it is refused, or cut out of the request."""
    bench = PolicyBench(Access, DENY)
    bench.topic_id(SECRET)
    attempts = 0
    for api, version in versions():
        try:
            request = bench.request(api, version, topics=[SECRET])
        except ValueError:
            continue  # it names groups only, or the codec does not know the version
        verdict = bench.ask(request)
        attempts += 1
        if isinstance(verdict, Forward):
            assert verdict is not FORWARD, (api, version)
            assert verdict.denials or verdict.patches, (api, version)
    tell("T29", f"{attempts} APIs and versions with a denied topic: 0 passed whole")
    assert attempts > 100


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ShareFetch", "DeleteTopics"])
def test_an_id_without_a_known_name_does_not_pass(api: str) -> None:
    """A client may know the id from a connection to a broker."""
    bench = PolicyBench(Access, DENY)
    other = PolicyBench(Access, DENY)
    other.topic_id(SECRET)
    request = other.request(api, topics=[SECRET])
    stranger = bench.request(api, request.api.version, body=request.body)
    assert bench.ask(stranger) is not FORWARD


@pytest.fixture(scope="module")
def guarded(
    kafka_one: KafkaCluster,  # noqa: F811 - the fixture above
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SluiceProcess]:
    """A Sluice with the rule before a real Kafka."""
    settings: dict[str, object] = {"policies": [{"use": "access", "config": DENY}]}
    folder = tmp_path_factory.mktemp("t29")
    with SluiceProcess(kafka_one.bootstrap, folder, settings=settings) as sluice:
        yield sluice


def python_writes(bootstrap: str, topic: str) -> int:
    """A record by kafka-python."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=SECONDS * 1000)
    with contextlib.suppress(KafkaError):
        producer.send(topic, b"stolen").get(SECONDS)
    producer.close(0)
    return 0


def a_transaction_writes(bootstrap: str, topic: str) -> int:
    """A record in a transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t29-{topic}"})
    with contextlib.suppress(KafkaException):
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, b"stolen")
        producer.commit_transaction(SECONDS)
    return 0


def librdkafka_reads(bootstrap: str, topic: str) -> int:
    """An assigned partition, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t29"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = [consumer.poll(0.5) for _ in range(6)]
    consumer.close()
    return sum(1 for message in messages if message is not None and not message.error())


@pytest.mark.parametrize(
    "attempt",
    [python_writes, a_transaction_writes, librdkafka_reads],
)
def test_no_client_writes_or_reads_a_record_of_a_denied_topic(
    attempt: Attempt,
    guarded: SluiceProcess,
    kafka_one: KafkaCluster,  # noqa: F811 - the fixture above
) -> None:
    """Directly the same attempt succeeds, so it is Sluice that prevents it."""
    topics = Topics(kafka_one.bootstrap, 1)
    secret, open_to_all = denied_topic(topics), topics.make()
    for topic in (secret, open_to_all):
        written(kafka_one.bootstrap, topic)
    is_reader = attempt is librdkafka_reads

    assert attempt(guarded.bootstrap, secret) == 0
    assert [each.value for each in topics.contents(secret)] == [b"kept"]
    found = attempt(guarded.bootstrap, open_to_all)
    assert found == 1 if is_reader else len(topics.contents(open_to_all)) == 2


def test_java_writes_no_record_either(
    guarded: SluiceProcess,
    kafka_one: KafkaCluster,  # noqa: F811 - the fixtures above
    java: Java,  # noqa: F811 - as above
    tmp_path: Path,
) -> None:
    """Its producer uses topic ids from v13 on."""
    topics = Topics(kafka_one.bootstrap, 1)
    secret = denied_topic(topics)
    where = ("--bootstrap-server", guarded.bootstrap, "--topic", secret)
    java.run_tool(PRODUCER, *where, "--max-messages", "5")

    assert topics.contents(secret) == []


def denied_topic(topics: Topics) -> str:
    """Make a topic that the rule denies, without Sluice."""
    name = f"{SECRET}-{next(_serial)}"
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=30)
    topics.await_leaders(name, 1)
    return name


def written(bootstrap: str, topic: str) -> None:
    """Write one record without Sluice."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"kept")
    assert producer.flush(SECONDS) == 0
