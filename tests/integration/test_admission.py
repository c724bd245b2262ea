"""`admission` and `fetch_floor` before a real Kafka: the broker's load, and how often a consumer fetches."""

import json
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from tests.support.faults.slow_relay import SlowRelay
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.long_polls import PRODUCE_VERSION, Talk, batch, read_produce
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.plugins.witness import install
from tests.support.processes.sluice_process import SluiceProcess
from wire.errors import ErrorCode

BOUND = 4
CLIENTS = 24
EACH = 8
DELAY_S = 0.02


@dataclass
class Answers:
    """The replies to producers, and their waiting times."""

    codes: list[int] = field(default_factory=list)
    waited_ms: list[float] = field(default_factory=list)


@contextmanager
def slow_broker(
    kafka: KafkaCluster, directory: Path, **config: object
) -> Iterator[tuple[SluiceProcess, SlowRelay]]:
    """A Sluice with `admission` before a broker that takes 20 ms longer for each request."""
    host, _, port = kafka.bootstrap.rpartition(":")
    policies = [
        {"use": "admission", "config": {"max_in_flight_requests_per_node": BOUND, **config}}
    ]
    with (
        SlowRelay((host, int(port)), api_key=f.PRODUCE, delay_s=DELAY_S) as relay,
        SluiceProcess(
            relay.bootstrap, directory, variables={"SLUICE_POLICIES": json.dumps(policies)}
        ) as sluice,
    ):
        yield sluice, relay


def produce(correlation_id: int, topic: str, value: bytes, client_id: str) -> bytes:
    """Return a Produce with one record for partition 0 and acks=all."""
    records = batch(value)
    body = f.string(None) + struct.pack(">hii", -1, 30_000, 1) + f.string(topic)
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return f.request(f.PRODUCE, PRODUCE_VERSION, correlation_id, body, client_id=client_id)


def crowd(bootstrap: str, topic: str, client_ids: list[str]) -> dict[str, Answers]:
    """Let each client id produce records to one partition with acks=all, one after the other."""
    answers = {client_id: Answers() for client_id in client_ids}
    start = threading.Barrier(len(client_ids))

    def run(place: int) -> None:
        mine = answers[client_ids[place]]
        with ExitStack() as stack:
            talk = stack.enter_context(Talk(bootstrap))
            start.wait(120)
            for number in range(1, EACH + 1):
                value = f"{place}-{number}".encode()
                reply, waited_ms = talk.ask(produce(number, topic, value, client_ids[place]))
                (written,) = read_produce(reply)
                mine.codes.append(written.code)
                mine.waited_ms.append(waited_ms)
                if written.code:
                    assert talk.socket.recv(1) == b"", "a connection ends after a shed write"
                    talk = stack.enter_context(Talk(bootstrap))

    with ThreadPoolExecutor(len(client_ids)) as pool:
        list(pool.map(run, range(len(client_ids))))
    return answers


def test_a_slow_broker_never_has_more_than_the_bound(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """Every producer is answered, each record is written once, and the one with a high priority hardly waits."""
    topic = topics_one.make()
    client_ids = ["vip", *(f"c{place}" for place in range(1, CLIENTS))]
    importance = [{"client_id": "vip", "level": 1}]

    config = {"importance": importance, "max_wait_ms": 60_000}  # none is refused on a slow machine
    with slow_broker(kafka_one, tmp_path, **config) as (sluice, relay):
        answers = crowd(sluice.bootstrap, topic, client_ids)

    assert relay.most_under_way == BOUND
    assert relay.under_way == 0
    assert {code for each in answers.values() for code in each.codes} == {0}
    values = sorted(read.value for read in topics_one.contents(topic))
    sent = [f"{place}-{number}" for place in range(CLIENTS) for number in range(1, EACH + 1)]
    assert values == sorted(value.encode() for value in sent)
    others = [ms for name, each in answers.items() if name != "vip" for ms in each.waited_ms]
    assert statistics.median(answers["vip"].waited_ms) < statistics.median(others) / 2


def test_a_shed_request_never_reaches_the_broker(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """With a short queue most are refused at once, as throttled; the broker sees only the written ones."""
    topic = topics_one.make()

    with slow_broker(kafka_one, tmp_path, max_queued_requests=2) as (sluice, relay):
        answers = crowd(sluice.bootstrap, topic, [f"c{place}" for place in range(CLIENTS)])

    codes = [code for each in answers.values() for code in each.codes]
    assert set(codes) == {0, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert relay.seen == codes.count(0) == len(topics_one.contents(topic))
    assert relay.most_under_way == BOUND


RECORDS = 400
PACE_S = 0.01
CHATTY, FLOORED = "chatty", "floored"


def test_a_consumer_with_a_floor_fetches_a_fifth_as_often(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """Two consumers read the same records as they arrive; the one with a floor fetches far less often."""
    topic = topics_one.make()
    variables, seen = install(tmp_path)
    floor = {"client_id": FLOORED, "min_bytes": 1 << 16, "max_wait_ms": 500}
    policies = [
        {"use": "witness", "config": {"file": str(seen.file)}},
        {"use": "fetch_floor", "config": {"consumers": [floor]}},
    ]
    variables["SLUICE_POLICIES"] = json.dumps(policies)
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice,
        ThreadPoolExecutor(2) as pool,
    ):
        ready = threading.Barrier(3)
        reading = [
            pool.submit(read, sluice.bootstrap, topic, client_id, ready)
            for client_id in (CHATTY, FLOORED)
        ]
        ready.wait(120)
        write_slowly(kafka_one.bootstrap, topic)
        values = [each.result(timeout=120) for each in reading]

    assert values[0] == values[1] == [f"{number}".encode() for number in range(RECORDS)]
    fetches = {
        client_id: sum(each.api == "Fetch" for each in seen.of_client(client_id))
        for client_id in (CHATTY, FLOORED)
    }
    assert 1 <= 5 * fetches[FLOORED] <= fetches[CHATTY], fetches


def write_slowly(bootstrap: str, topic: str) -> None:
    """Write a record every ten milliseconds."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    try:
        began = time.monotonic()
        for number in range(RECORDS):
            producer.send(topic, f"{number}".encode(), partition=0)
            time.sleep(max(0.0, began + (number + 1) * PACE_S - time.monotonic()))
        producer.flush(timeout=120)
    finally:
        producer.close()


def read(bootstrap: str, topic: str, client_id: str, ready: threading.Barrier) -> list[bytes]:
    """Read all records with kafka-python's default min_bytes of one."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, client_id=client_id, group_id=None)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        consumer.poll(timeout_ms=0)
        ready.wait(120)
        values: list[bytes] = []
        give_up = time.monotonic() + 120
        while len(values) < RECORDS and time.monotonic() < give_up:
            for records in consumer.poll(timeout_ms=200).values():
                values += [each.value for each in records]
        return values
    finally:
        consumer.close()
