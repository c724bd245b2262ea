"""Credential custody before a real Kafka: clients without credentials reach brokers that require them.

The brokers end an authentication by SCRAM-SHA-256 after six seconds (KIP-368) unless it is renewed.
"""

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN, SCRAM_256, SCRAM_512
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import unsigned_token
from tests.support.processes.sluice_process import SluiceProcess

ALICE: Final = ("alice", "alice-secret")
COUNT: Final = 50
LOAD_SECONDS: Final = 14
TALKERS: Final = 6


@contextmanager
def custody(
    kafka: KafkaCluster, directory: Path, mechanism: str, password: str = ALICE[1]
) -> Iterator[SluiceProcess]:
    """Run a Sluice that authenticates as alice."""
    directory.mkdir(parents=True, exist_ok=True)
    secret = directory / "secret"
    if mechanism == OAUTH:
        secret.write_text(unsigned_token("alice", 600))
        settings: dict[str, object] = {"mechanism": OAUTH, "token_file": str(secret)}
    else:
        secret.write_text(password + "\n")
        settings = {"mechanism": mechanism, "username": "alice", "password_file": str(secret)}
    settings["forward_credential_apis"] = ["CreateDelegationToken"]  # tells who the broker sees
    sluice = SluiceProcess(kafka.sasl_bootstrap, directory, upstream_settings={"sasl": settings})
    with sluice:
        yield sluice


@pytest.fixture(scope="module")
def topics(kafka_sasl: KafkaCluster) -> Topics:
    """Topics by the listener without authentication."""
    return Topics(kafka_sasl.bootstrap, 1)


@pytest.mark.parametrize(
    "mechanism",
    [
        SCRAM_256,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (PLAIN, SCRAM_512, OAUTH)),
    ],
)
def test_clients_without_credentials_work_by_every_mechanism(
    kafka_sasl: KafkaCluster, topics: Topics, tmp_path: Path, mechanism: str
) -> None:
    """kafka-python writes and librdkafka reads, and the reverse. The broker's principal is Sluice's user."""
    with custody(kafka_sasl, tmp_path / "sluice", mechanism) as sluice:
        topic = topics.make()
        python = KafkaProducer(bootstrap_servers=sluice.bootstrap)
        for number in range(COUNT):
            python.send(topic, b"python %d" % number)
        python.flush(20)
        python.close()
        confluent = Producer({"bootstrap.servers": sluice.bootstrap})
        for number in range(COUNT):
            confluent.produce(topic, b"confluent %d" % number)
        assert confluent.flush(20) == 0
        reader = Consumer(
            {
                "bootstrap.servers": sluice.bootstrap,
                "group.id": f"custody-{mechanism}",
                "auto.offset.reset": "earliest",
            }
        )
        reader.subscribe([topic])
        found: list[bytes | None] = []
        until = time.monotonic() + 120
        while len(found) < 2 * COUNT and time.monotonic() < until:
            found += [each.value() for each in reader.consume(100, 0.5) if not each.error()]
        reader.close()
        assert len(set(found)) == 2 * COUNT
        other = KafkaConsumer(
            bootstrap_servers=sluice.bootstrap,
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        other.assign([PythonPartition(topic, 0)])
        assert {next(other).value for _ in range(2 * COUNT)} == set(found)
        other.close()
        with Talk(sluice.port) as talk:
            token = talk.who()
            assert token is not None
            assert token.owner == "alice"
        assert ALICE[1] not in sluice.said()


def test_a_wrong_password_is_tried_rarely_and_named_in_the_log(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """Fifty clients are closed; the reason is in the log, without the password."""
    with custody(kafka_sasl, tmp_path / "sluice", PLAIN, "wr0ng-canary") as sluice:
        with ExitStack() as stack:
            talks = [stack.enter_context(Talk(sluice.port)) for _ in range(50)]
            assert all(not talk.metadata() for talk in talks)
        # A session is logged when both its sides are closed.
        await_that(lambda: "upstream_authentication_failed" in sluice.said(), "the line of log")
        said = sluice.said()
    assert "the broker refused the PLAIN credentials (SASL_AUTHENTICATION_FAILED)" in said
    assert "wr0ng-canary" not in said


def test_sasl_of_a_client_is_answered_as_a_plaintext_listener_answers_it(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """SaslHandshake, SaslAuthenticate and the versions of both are the same as those of Kafka without SASL, and the
    connection stays.
    """

    def talk_about_sasl(port: int, host: str) -> list[object]:
        with Talk(port, host) as talk:
            found: list[object] = [_offered(talk)]
            talk.send(sasl.handshake(talk.next_id(), "PLAIN"))
            found.append(talk.receive())
            for version in range(3):
                token = sasl.plain(*ALICE)
                talk.send(sasl.authenticate(talk.next_id(), token, version))
                found.append(talk.receive())
            return [*found, talk.metadata()]

    broker = kafka_sasl.brokers[1]
    direct = talk_about_sasl(broker.port, broker.host)
    with custody(kafka_sasl, tmp_path / "sluice", PLAIN) as sluice:
        assert talk_about_sasl(sluice.port, "127.0.0.1") == direct


def _offered(talk: Talk) -> dict[int, tuple[int, int]]:
    """Return the ranges of SaslHandshake and SaslAuthenticate; Sluice never offers SaslHandshake v0."""
    talk.send(f.request(f.API_VERSIONS, 0, talk.next_id()))
    reply = talk.receive()
    assert reply is not None
    (count,) = struct.unpack_from(">i", reply, 2)
    ranges = {
        key: (max(lowest, key == f.SASL_HANDSHAKE), highest)
        for key, lowest, highest in struct.iter_unpack(">hhh", reply[6 : 6 + 6 * count])
    }
    return {key: ranges[key] for key in (f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE)}


@pytest.mark.slow
def test_no_connection_is_lost_while_authentications_are_renewed(
    kafka_sasl: KafkaCluster, topics: Topics, tmp_path: Path
) -> None:
    """Connections that pipeline, that idle and that produce live through two lifetimes; no request is lost."""
    lost: list[str] = []
    rounds = [0] * TALKERS
    until = time.monotonic() + LOAD_SECONDS

    def pipeline(place: int, port: int) -> None:
        """Keep five requests in flight on one connection, which is never opened again."""
        with Talk(port) as talk:
            while time.monotonic() < until:
                for _ in range(5):
                    talk.send(f.request(f.METADATA, 1, talk.next_id(), b"\0\0\0\0"))
                for _ in range(5):
                    if talk.receive() is None:
                        lost.append(f"talker {place} after {rounds[place]} rounds")
                        return
                rounds[place] += 1

    with custody(kafka_sasl, tmp_path / "sluice", SCRAM_256) as sluice, ExitStack() as stack:
        idle = [stack.enter_context(Talk(sluice.port)) for _ in range(3)]
        assert all(talk.metadata() for talk in idle)
        threads = [
            threading.Thread(target=pipeline, args=(place, sluice.port), daemon=True)
            for place in range(TALKERS)
        ]
        for thread in threads:
            thread.start()
        topic, failed, sent = topics.make(), [], 0
        producer = Producer({"bootstrap.servers": sluice.bootstrap, "linger.ms": 5})
        while time.monotonic() < until:
            producer.produce(
                topic, b"%d" % sent, on_delivery=lambda error, _: error and failed.append(error)
            )
            sent += 1
            producer.poll(0.005)
        assert producer.flush(20) == 0
        for thread in threads:
            thread.join(30)
        assert lost == []
        assert min(rounds) > 10
        assert failed == []
        assert len(topics.contents(topic)) == sent
        assert all(talk.metadata() for talk in idle)
        said = sluice.said()
    assert "upstream_" not in said.replace("upstream=", "")
    assert "broker_closed" not in said
