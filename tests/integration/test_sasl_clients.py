"""Real clients authenticate to the brokers through Sluice, or to Sluice; each of their requests is their user's."""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import MECHANISMS, SCRAM_256
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, acked_values, config_file
from tests.support.plugins.witness import Sighting, Witnessed

pytestmark = pytest.mark.slow

COUNT = 20
SECONDS = 8
"""A session ends after six."""
WriteOn = Callable[[str, str, str], int]
"""Writes records by one client for SECONDS, given the bootstrap, the topic and the client id; returns how many."""
BEFORE_A_NAME = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
ALICE = ("alice", "sasl")


class Write(Protocol):
    """Writes COUNT records as this user; returns True when all were acknowledged, False when authentication failed.

    `login`: mechanism, user, password.
    """

    def __call__(self, bootstrap: str, topic: str, client_id: str, *login: str) -> bool: ...


def by_kafka_python(bootstrap: str, topic: str, client_id: str, *login: str) -> bool:
    try:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=client_id,
            max_block_ms=5_000,
            api_version=(2, 8),  # or it would ask at once, and leave a socket behind when refused
            **ClientSecurity(*login).kafka_python(),
        )
        try:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number).get(timeout=120)
        finally:
            producer.close(timeout=5)
    except PythonKafkaError:
        return False
    return True


def by_librdkafka(bootstrap: str, topic: str, client_id: str, *login: str) -> bool:
    errors: list[KafkaError] = []
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "error_cb": errors.append,
            **ClientSecurity(*login).librdkafka(),
        }
    )

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
    give_up = time.monotonic() + 120
    while producer.flush(0.2):
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            producer.purge()
            producer.flush(5)
            return False
        assert time.monotonic() < give_up, errors
    assert not failed, failed
    return True


@pytest.fixture
def by_java(java: Java, tmp_path: Path) -> Write:
    """VerifiableProducer."""

    def write(bootstrap: str, topic: str, client_id: str, *login: str) -> bool:
        patience = {"max.block.ms": "5000", "reconnect.backoff.max.ms": "100"}
        config = {"client.id": client_id, **patience, **ClientSecurity(*login).java()}
        arguments = (
            *("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(COUNT)),
            *("--command-config", config_file(tmp_path / f"{client_id}.properties", config)),
        )
        try:
            return len(acked_values(java.run_tool(PRODUCER, *arguments))) == COUNT
        except AssertionError as error:
            if "SaslAuthenticationException" not in str(error):
                raise
            return False

    return write


@pytest.fixture(params=["kafka-python", "librdkafka", "java"])
def write(request: pytest.FixtureRequest) -> Write:
    """Each client library."""
    if request.param == "java":
        made: Write = request.getfixturevalue("by_java")
        return made
    return by_kafka_python if request.param == "kafka-python" else by_librdkafka


@pytest.fixture(params=["the broker", "Sluice"])
def witnessed(request: pytest.FixtureRequest) -> Witnessed:
    """A Sluice whose clients authenticate to either."""
    fixture = "sluice_sasl" if request.param == "the broker" else "sluice_with_users"
    found: Witnessed = request.getfixturevalue(fixture)
    return found


@pytest.fixture(scope="module")
def topics(kafka_sasl: KafkaCluster) -> Topics:
    """Topics by the listener without authentication."""
    return Topics(kafka_sasl.bootstrap, 1)


def speakers(seen: list[Sighting]) -> set[tuple[str, str]]:
    """Return the users of all requests but those before authentication."""
    return {each.principal for each in seen if each.api not in BEFORE_A_NAME}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_client_authenticates_by_every_mechanism(
    write: Write, mechanism: str, witnessed: Witnessed, topics: Topics
) -> None:
    """It writes its records, and all of its requests are alice's."""
    topic, client_id = topics.make(), f"c-{uuid.uuid4()}"
    login = (mechanism, "alice", "alice-secret")
    assert write(witnessed.sluice.bootstrap, topic, client_id, *login)
    assert len(topics.contents(topic)) == COUNT
    seen = witnessed.seen.of_client(client_id)
    assert "Produce" in {each.api for each in seen}
    assert speakers(seen) == {ALICE}


def test_a_wrong_password_is_reported_to_the_client(
    write: Write, witnessed: Witnessed, topics: Topics
) -> None:
    """It fails, no record is written, and no client gets a name."""
    topic, client_id = topics.make(), f"c-{uuid.uuid4()}"
    assert not write(witnessed.sluice.bootstrap, topic, client_id, SCRAM_256, "alice", "bob-secret")
    seen = witnessed.seen.of_client(client_id)
    assert "SaslAuthenticate" in {each.api for each in seen}
    assert {each.user for each in seen} == {"ANONYMOUS"}
    assert topics.contents(topic) == []


def lives_on(seen: list[Sighting]) -> None:
    """Return whether it authenticated more than once on one connection, and kept its user."""
    busiest = max(
        ([each for each in seen if each.session_id == one] for one in {s.session_id for s in seen}),
        key=lambda said: sum(each.api == "SaslHandshake" for each in said),
    )
    assert sum(each.api == "SaslHandshake" for each in busiest) >= 2
    names = [each.principal for each in busiest]
    known = names.index(ALICE)
    assert set(names[known:]) == {ALICE}
    assert {each.api for each in busiest[:known]} <= BEFORE_A_NAME


def during(seconds: float, do: Callable[[], object]) -> int:
    """Do it again and again for so long; return how often."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        do()
        count += 1
        time.sleep(0.05)
    return count


def librdkafka_writes_on(bootstrap: str, topic: str, client_id: str) -> int:
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "error_cb": errors.append,
            **ClientSecurity(SCRAM_256, "alice", "alice-secret").librdkafka(),
        }
    )

    def send() -> None:
        producer.produce(topic, b"x")
        assert producer.flush(60) == 0

    sent = during(SECONDS, send)
    assert not errors, errors
    return sent


def kafka_python_writes_on(bootstrap: str, topic: str, client_id: str) -> int:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        api_version=(2, 8),
        **ClientSecurity(SCRAM_256, "alice", "alice-secret").kafka_python(),
    )
    with closing(producer):
        return during(SECONDS, lambda: producer.send(topic, b"x").get(timeout=60))


@pytest.fixture
def java_writes_on(java: Java, tmp_path: Path) -> WriteOn:
    """VerifiableProducer."""

    def write(bootstrap: str, topic: str, client_id: str) -> int:
        login = ClientSecurity(SCRAM_256, "alice", "alice-secret").java()
        config = config_file(tmp_path / "again.properties", {"client.id": client_id, **login})
        said = java.run_tool(
            *(PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic),
            *("--max-messages", str(SECONDS * 20), "--throughput", "20"),
            *("--command-config", config),
        )
        return len(acked_values(said))

    return write


def test_clients_re_authenticate(
    witnessed: Witnessed, topics: Topics, java_writes_on: WriteOn
) -> None:
    """Their sessions end after six seconds (KIP-368): each library continues on its connection without an error."""
    clients = (librdkafka_writes_on, kafka_python_writes_on, java_writes_on)
    writes = [(write, topics.make(), f"c-{uuid.uuid4()}") for write in clients]
    with ThreadPoolExecutor(len(writes)) as pool:
        bootstrap = witnessed.sluice.bootstrap
        counts = [pool.submit(write, bootstrap, *more) for write, *more in writes]

    for (_, topic, client_id), count in zip(writes, counts, strict=True):
        lives_on(witnessed.seen.of_client(client_id))
        assert len(topics.contents(topic)) == count.result() > 0
