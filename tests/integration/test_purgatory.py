"""Requests that wait at a real broker: a living broker's
replies are not delayed, and for a silent one Sluice answers.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer

from tests.integration.conftest import Way
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import LoadProducer, await_that
from tests.support.kafka.long_polls import (
    TIMEOUT_SECONDS,
    Crowd,
    Fetched,
    Talk,
    Written,
    fetch,
    produce,
    read_fetch,
    read_produce,
    unread_bytes,
)
from tests.support.kafka.one_kafka import since
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import IDEMPOTENT, PRODUCER, config_file, events
from tests.support.messages import frames as f
from tests.support.messages.raw import api_versions_request
from tests.support.processes.sluice_process import SluiceProcess

TIMED_OUT = 7
NODE = 1
CROWD = 200
FOREVER_MS = 2**31 - 1
ANSWERED_MS, CLIENTS_TIMEOUT_MS = 5_000, 120_000
"""When Sluice answers a produce whose broker is silent, and when three client libraries would give up."""
LARGE = b"large" * 1000
"""Too long for a request to be remembered whole."""


@pytest.fixture
def sluice(kafka_one: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice of this test's own with the default graces and no further silence."""
    variables = {"SLUICE_LOG_FORMAT": "json", "SLUICE_PURGATORY_SILENCE_MS": "0"}
    with SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice:
        yield sluice


def test_an_idle_poll_is_answered_by_the_broker_and_not_early(
    sluice: SluiceProcess, kafka_one: KafkaCluster, topics_one: Topics
) -> None:
    """With max_wait 500 ms and no data the broker's own empty reply arrives, never before 500 - 5 ms.

    Sluice answers no poll in the broker's place, however late the machine makes it.
    """
    topic = topics_one.make()
    waits: list[float] = []
    with Crowd() as crowd:
        crowd.connect(sluice.bootstrap, 12)
        for turn in range(6):
            crowd.send(fetch(turn, topic, 500))
            crowd.await_replies(TIMEOUT_SECONDS)
            for each in crowd.members:
                assert read_fetch(each.data) == Fetched(0, 0, 0, 1, 0), "not the broker's own"
                waits.append(each.waited_ms or 0)
    assert min(waits) >= 495
    assert not [line for line in _log(sluice) if line["event"] == "requests_expired"]


def test_a_record_ends_the_poll_that_waits_for_it(way_one: Way) -> None:
    """With min_bytes 1, a record written in the middle of a wait arrives, long before the wait would end."""
    topic = way_one.topics.make()
    with Talk(way_one.bootstrap) as reader, Talk(way_one.bootstrap) as writer:
        for offset in range(42):
            # The wait is much longer than the reader's patience.
            reader.send(fetch(offset, topic, 20_000 * TIMEOUT_SECONDS, min_bytes=1, offset=offset))
            writer.ask(api_versions_request(1))  # the fetch is parked by then, or as good as
            time.sleep(0.02)
            assert read_produce(writer.ask(produce(2, topic, b"new", 100_000))[0]) == [
                Written(0, 0, offset)
            ]
            assert read_fetch(reader.reply()[0]).records_bytes > 0


def test_sluice_answers_for_a_suspended_broker_in_time(
    sluice: SluiceProcess, kafka_one: KafkaCluster, topics_one: Topics
) -> None:
    """Error 7 comes in the last half second before the produce's own timeout,
    an empty fetch a second after its own and not earlier; then both are served.

    Order holds on both connections, the broker's late replies reach no client, and the record is there once.
    """
    topic = topics_one.make(2)
    address = f"{sluice.address}:{sluice.node_port(NODE)}"
    with Talk(address) as writer, Talk(address) as reader:
        session = read_fetch(reader.ask(fetch(1, topic, 1, session=(0, 0)))[0]).session_id
        assert session, "the broker gives a session"
        with kafka_one.paused(NODE):
            reader.send(fetch(2, topic, 400, session=(session, 1)))
            writer.send(produce(1, topic, b"first", 2000, partitions=2))
            writer.socket.sendall(produce(2, topic, LARGE, 2000))
            writer.socket.sendall(api_versions_request(3))
            reply, waited_ms = reader.reply()
            assert f.correlation_id(reply) == 2
            assert read_fetch(reply) == Fetched(0, 0, 1, 0, 0), "empty, and no session any more"
            assert waited_ms >= 1395
            for ident, partitions in ((1, 2), (2, 1)):
                reply, waited_ms = writer.reply()
                assert f.correlation_id(reply) == ident
                assert read_produce(reply) == [
                    Written(partition, TIMED_OUT, -1) for partition in range(partitions)
                ]
                assert waited_ms >= 1495
        reply, _ = writer.reply()
        assert f.correlation_id(reply) == 3, "the late replies went nowhere, and this one came"
        third = writer.ask(produce(4, topic, b"third", 100_000))[0]
        assert read_produce(third) == [Written(0, 0, 2)], "both before it were written"
        found = read_fetch(reader.ask(fetch(3, topic, 20_000, min_bytes=1, session=(0, 0)))[0])
        assert found.session_id not in {0, session}
        assert found.records_bytes > 0
    values = [(record.partition, record.value) for record in topics_one.contents(topic)]
    assert values == [(0, b"first"), (0, LARGE), (0, b"third"), (1, b"first")]
    await_that(
        lambda: (_expired(sluice, "produce"), _expired(sluice, "fetch")) == (2, 1), "the log"
    )
    told = [line for line in _log(sluice) if line["event"] == "requests_expired"]
    assert {line["node"] for line in told} == {NODE}


@since(4, 2)  # `--command-config` of a tool
def test_every_client_is_answered_before_its_own_timeout(
    kafka_one: KafkaCluster,
    topics_one: Topics,
    java: Java,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Error 7 reaches librdkafka, kafka-python and Java within their request timeouts; no connection is lost."""
    topic, timeout_ms = topics_one.make(), CLIENTS_TIMEOUT_MS
    variables = {
        "SLUICE_LOG_FORMAT": "json",
        "SLUICE_PURGATORY_SILENCE_MS": "0",
        "SLUICE_PURGATORY_PRODUCE_GRACE_MS": str(ANSWERED_MS - timeout_ms),
    }
    sluice = SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables)
    sluice.start()
    said = tmp_path / "producer.out"
    settings = {
        "request.timeout.ms": str(timeout_ms),
        "delivery.timeout.ms": "240000",
        "linger.ms": "0",
    }
    java_producer = java.start_tool(
        PRODUCER,
        *("--bootstrap-server", sluice.bootstrap, "--topic", topic, "--throughput", "10"),
        *("--command-config", config_file(tmp_path / "producer.properties", settings)),
        output=said,
    )
    confluent = Producer(
        {
            "bootstrap.servers": sluice.bootstrap,
            "acks": "all",
            "request.timeout.ms": timeout_ms,
            "message.send.max.retries": 0,
        }
    )
    python = KafkaProducer(
        bootstrap_servers=sluice.bootstrap,
        acks="all",
        enable_idempotence=False,
        retries=0,
        request_timeout_ms=timeout_ms,
    )
    errors: list[KafkaError | None] = []
    try:
        await_that(lambda: "producer_send_success" in said.read_text(), "the Java producer")
        python.send(topic, b"ready").get(TIMEOUT_SECONDS)
        confluent.produce(topic, b"ready", on_delivery=lambda error, _: errors.append(error))
        assert confluent.flush(TIMEOUT_SECONDS) == 0
        with kafka_one.paused(NODE), caplog.at_level(logging.WARNING, "kafka"):
            began = time.monotonic()
            future = python.send(topic, LARGE)
            confluent.produce(topic, LARGE, on_delivery=lambda error, _: errors.append(error))
            assert confluent.flush(TIMEOUT_SECONDS) == 0
            assert time.monotonic() - began > ANSWERED_MS / 1000 - 0.1
            await_that(lambda: future.is_done, "kafka-python")
            await_that(lambda: "producer_send_error" in said.read_text(), "Java")
    finally:
        java_producer.terminate()
        java_producer.wait(TIMEOUT_SECONDS)
        python.close()
        sluice.stop()
    assert [error and error.code() for error in errors] == [None, KafkaError.REQUEST_TIMED_OUT]
    assert type(future.exception).__name__ == "RequestTimedOutError"
    assert "Closing connection" not in caplog.text
    failed = events(said.read_text(), "producer_send_error")
    # A time-out of Java's own would be a NetworkException, or speak of expiring records.
    assert {(each["exception"], each["message"]) for each in failed} == {
        ("class org.apache.kafka.common.errors.TimeoutException", "The request timed out.")
    }
    assert "Disconnecting" not in said.with_suffix(".err").read_text()


@pytest.mark.slow
def test_idempotent_producers_lose_and_double_nothing(
    sluice: SluiceProcess, kafka_one: KafkaCluster, topics_one: Topics, java: Java, tmp_path: Path
) -> None:
    """The broker is suspended twice for longer than they wait:
    they get an error, retry, and each record is there once.
    """
    topics = [topics_one.make(3) for _ in range(2)]
    said = tmp_path / "producer.out"
    settings = {**IDEMPOTENT, "request.timeout.ms": "1200"}
    load = LoadProducer(sluice.bootstrap, topics[0], 3, settings={"request.timeout.ms": 1200})
    java_producer = java.start_tool(
        PRODUCER,
        *("--bootstrap-server", sluice.bootstrap, "--topic", topics[1], "--throughput", "200"),
        *("--command-config", config_file(tmp_path / "producer.properties", settings)),
        output=said,
    )
    try:
        with load:
            await_that(lambda: "producer_send_success" in said.read_text(), "the Java producer")
            for _ in range(2):
                with kafka_one.paused(NODE):
                    time.sleep(1.6)  # what is sent comes up after 0.7 s
                load.await_acks(400)
        java_producer.terminate()
        java_producer.wait(120)
    finally:
        java_producer.kill()
        java_producer.wait()
    load.reckon(topics_one.contents(topics[0]))
    told = said.read_text()
    assert events(told, "producer_send_error") == []
    acked = [int(each["value"]) for each in events(told, "producer_send_success")]
    stored = topics_one.contents(topics[1])
    assert sorted(int(record.value) for record in stored) == sorted(acked)
    for partition in range(3):
        numbers = [int(record.value) for record in stored if record.partition == partition]
        assert numbers == sorted(numbers), "reordered"
    expired = _expired(sluice, "produce")
    assert expired > 0, "no request was answered by Sluice: the test tests nothing"


def test_a_drain_answers_every_parked_poll(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """200 long polls, SIGTERM: 200 empty replies, each connection closed and none reset, exit code 0.

    Each is answered by the drain itself, whose end is a thousand times further away than it needs.
    """
    topic = topics_one.make()
    variables = {"SLUICE_DRAIN_TIMEOUT_MS": "600000", "SLUICE_LOG_FORMAT": "json"}
    sluice = SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables)
    sluice.start()
    with Crowd() as crowd:
        crowd.connect(f"{sluice.address}:{sluice.node_port(NODE)}", CROWD)
        crowd.send(fetch(7, topic, FOREVER_MS, min_bytes=1))
        await_that(lambda: unread_bytes(sluice.node_port(NODE)) == 0, "all to be read")
        sluice.terminate()
        crowd.await_replies(TIMEOUT_SECONDS, and_end=True)
        sluice.await_exit()  # it waits for no disconnects, nor for the end of the drain
        assert {each.end for each in crowd.members} == {"closed"}
        assert {f.correlation_id(each.data) for each in crowd.members} == {7}
        assert {read_fetch(each.data) for each in crowd.members} == {Fetched(0, 0, 1, 0, 0)}
        assert {len(each.data) for each in crowd.members} == {len(crowd.members[0].data)}
    with Talk(kafka_one.bootstrap) as writer:  # lets the broker forget the polls
        writer.ask(produce(1, topic, b"end", 100_000))


def test_endless_waits_are_cut_and_delay_no_honest_client(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """200 fetches of max_wait 2^31-1 end after max_wait_ms of 2 s, and an honest consumer reads meanwhile."""
    variables = {"SLUICE_PURGATORY_MAX_WAIT_MS": "2000", "SLUICE_PURGATORY_FETCH_GRACE_MS": "100"}
    sluice = SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables)
    sluice.start()
    topic, honest = topics_one.make(), topics_one.make()
    address = f"{sluice.address}:{sluice.node_port(NODE)}"
    with ExitStack() as stack:
        stack.callback(sluice.stop)
        reader, writer = (stack.enter_context(Talk(address)) for _ in range(2))
        crowd = stack.enter_context(Crowd())
        crowd.connect(address, CROWD)
        crowd.send(fetch(7, topic, FOREVER_MS, min_bytes=1))
        await_that(lambda: unread_bytes(sluice.node_port(NODE)) == 0, "all to be parked")
        for offset in range(10):
            reader.send(fetch(offset, honest, 1000, min_bytes=1, offset=offset))
            writer.ask(produce(offset, honest, b"x", 100_000))
            reply = reader.reply()[0]
            while not read_fetch(reply).records_bytes:  # the record came after this wait's end
                reply = reader.ask(fetch(offset, honest, 1000, min_bytes=1, offset=offset))[0]
        crowd.await_replies(TIMEOUT_SECONDS)
        assert all(each.replied for each in crowd.members)
        assert {read_fetch(each.data) for each in crowd.members} == {Fetched(0, 0, 1, 0, 0)}
    with Talk(kafka_one.bootstrap) as talk:  # lets the broker forget them
        talk.ask(produce(1, topic, b"end", 100_000))


def _log(sluice: SluiceProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sluice.said().splitlines()]


def _expired(sluice: SluiceProcess, kind: str) -> int:
    """Return how many requests of this kind Sluice has answered in a broker's place, by its log."""
    return sum(line.get(kind, 0) for line in _log(sluice) if line["event"] == "requests_expired")
