"""`admission` and `fetch_floor` before a real Kafka: the broker's load, and how often a consumer fetches."""

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

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


class SlowRelay:
    """Relays a free loopback port to `target`; each reply is late by DELAY_S. A context manager.

    Counted are the Produce requests of all connections together, from their arrival here until their reply leaves: a
    client never has fewer requests in flight than are counted.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.seen = self.under_way = self.most_under_way = 0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.create_connection(self._target)
                asked: deque[int] = deque()
                for way, ends in ((self._ask, (client, server)), (self._reply, (server, client))):
                    threading.Thread(
                        target=self._relay, args=(way, asked, *ends), daemon=True
                    ).start()

    def _relay(
        self,
        way: Callable[[deque[int], bytes], None],
        asked: deque[int],
        source: socket.socket,
        sink: socket.socket,
    ) -> None:
        """Pass on whole frames in one direction, until either side ends."""
        with suppress(OSError), source.makefile("rb") as stream:
            while head := stream.read(4):
                frame = head + stream.read(int.from_bytes(head, "big"))
                way(asked, frame)
                sink.sendall(frame)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _ask(self, asked: deque[int], frame: bytes) -> None:
        asked.append(int.from_bytes(frame[4:6], "big"))
        if asked[-1] == f.PRODUCE:
            with self._counting:
                self.seen += 1
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)

    def _reply(self, asked: deque[int], _: bytes) -> None:
        time.sleep(DELAY_S)
        if asked.popleft() == f.PRODUCE:
            with self._counting:
                self.under_way -= 1


@dataclass
class Answers:
    """The codes of the replies to a producer."""

    codes: list[int] = field(default_factory=list)


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
        SlowRelay((host, int(port))) as relay,
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
                reply, _ = talk.ask(produce(number, topic, value, client_ids[place]))
                (written,) = read_produce(reply)
                mine.codes.append(written.code)
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
    written = [read.value for read in topics_one.contents(topic)]
    sent = [f"{place}-{number}" for place in range(CLIENTS) for number in range(1, EACH + 1)]
    assert sorted(written) == sorted(value.encode() for value in sent)
    # Without a priority its last record would be among the last of all.
    assert written.index(f"0-{EACH}".encode()) < len(written) / 2


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


RECORDS = 100
CHATTY, FLOORED = "chatty", "floored"


def test_a_consumer_with_a_floor_fetches_a_fifth_as_often(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """Two consumers read records of which each is written when one of them has the last; the other, with a floor,
    fetches far less often.
    """
    topic = topics_one.make()
    variables, seen = install(tmp_path)
    floor = {"client_id": FLOORED, "min_bytes": 1 << 16, "max_wait_ms": 5000}
    policies = [
        {"use": "witness", "config": {"file": str(seen.file)}},
        {"use": "fetch_floor", "config": {"consumers": [floor]}},
    ]
    variables["SLUICE_POLICIES"] = json.dumps(policies)
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice,
        closing(KafkaProducer(bootstrap_servers=kafka_one.bootstrap)) as producer,
        ThreadPoolExecutor(1) as pool,
    ):

        def write(number: int) -> None:
            producer.send(topic, f"{number}".encode(), partition=0).get(120)

        write(0)
        floored = pool.submit(read, sluice.bootstrap, topic, FLOORED)
        chatty = read(sluice.bootstrap, topic, CHATTY, write)
        values = [chatty, floored.result(timeout=120)]

    assert values == [[f"{number}".encode() for number in range(RECORDS)]] * 2
    fetches = {
        client_id: sum(each.api == "Fetch" for each in seen.of_client(client_id))
        for client_id in (CHATTY, FLOORED)
    }
    assert 1 <= 5 * fetches[FLOORED] <= fetches[CHATTY], fetches


def read(
    bootstrap: str, topic: str, client_id: str, write: Callable[[int], None] = lambda _number: None
) -> list[bytes]:
    """Read all records with kafka-python's default min_bytes of one; `write` the next one after each."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, client_id=client_id, group_id=None)
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        values: list[bytes] = []
        give_up = time.monotonic() + 120
        while len(values) < RECORDS and time.monotonic() < give_up:
            for records in consumer.poll(timeout_ms=200).values():
                values += [each.value for each in records]
                if len(values) < RECORDS:
                    write(len(values))
        return values
