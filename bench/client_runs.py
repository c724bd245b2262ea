"""A real Kafka, the proxies before it, and one run of a case through one of them."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from bench import kafka_clients as tools
from bench.client_cases import Case
from bench.figures import Sample
from bench.harness import ROOT, BenchError
from bench.harness.usage import cpu_ns
from bench.kafka_clients import LISTENER, AdvertisedListener, Client, Written, await_all
from bench.running import Running
from bench.system_calls import Calls, count_calls
from bench.variants import HAPROXY, Variant
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics

NETWORK: Final = 0
"""The third byte of the broker's address, 127.0.0.1."""
WARM_SECONDS: Final = 2
"""Records of so many seconds pass before the first reading."""
WARM_UP: Final = Case("warm", "before the first round", "produce", 12, 100)
STOCK_RECORDS: Final = 1_000_000
"""The records of a topic that is read at full speed."""
ENDLESS: Final = 10**9


class Clients:
    """A Kafka with its proxies, and the clients of one run at a time."""

    def __init__(self, folder: Path, java: Java) -> None:
        self._folder = folder
        self._java = java
        self._cluster = KafkaCluster(
            folder / "kafka",
            1,
            NETWORK,
            java,
            listeners=AdvertisedListener(),
            settings={"log.segment.delete.delay.ms": "1000"},
            heap="1g",
        )
        self._admin: AdminClient
        self._runs = 0
        self._stocks: dict[int, str] = {}

    @contextlib.contextmanager
    def started(self, given: list[Variant]) -> Iterator[dict[str, Running]]:
        """Run the proxies and the broker; yield the proxies by name.

        Raises:
            BenchError: a proxy does not accept connections.
        """
        broker = self._cluster.brokers[1]
        with contextlib.ExitStack() as stack:
            running = {}
            for each in given:
                upstream = broker.further[LISTENER] if each.name == HAPROXY else broker.port
                proxy = Running(each, upstream, self._folder / each.name, pinned=False)
                running[each.name] = stack.enter_context(proxy)
            advertised = [f"PLAINTEXT://{broker.address}"]
            if HAPROXY in running:
                advertised.append(f"{LISTENER}://127.0.0.1:{running[HAPROXY].port}")
            self._cluster.settings["advertised.listeners"] = ",".join(advertised)
            stack.callback(self._cluster.stop)
            self._cluster.start()
            self._admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})
            yield running

    def run(self, case: Case, proxy: Running, nth: int, seconds: float) -> Sample:
        """Run a case once; return what it cost.

        Raises:
            BenchError: the records do not flow, or a client has failed.
        """
        if case.kind == "read":
            return self._read_stock(case, proxy, nth)
        with self._flow(case, proxy, seconds) as (producer, written):
            began, before, records = time.monotonic(), _cpu_ns(proxy), written.records()
            if case.has_latency:
                producer.await_end()
            else:
                time.sleep(seconds)
            took_s, spent = time.monotonic() - began, _cpu_ns(proxy) - before
            records = written.records() - records
        if records <= 0:
            raise BenchError(f"{case.title}: no records after the warm-up: {producer.said()}")
        p50_us = p99_us = 0.0
        if case.has_latency:
            speed, p50_us, p99_us = producer.steady()
            took_s = records / speed
        size, cpu_us = records * case.record_bytes, spent / 1000 / records
        return Sample(case.name, proxy.name, nth, records, took_s, size, cpu_us, p50_us, p99_us)

    def count(self, case: Case, proxy: Running, seconds: float) -> Calls | None:
        """Count the system calls of a proxy while the case's records flow; None if that is not possible here.

        Raises:
            BenchError: the records do not flow.
        """
        assert proxy.pid is not None, "the proxy does not run"
        scratch = self._folder / "calls"
        if case.kind == "read":
            with self._consumer(self._stock(case), f"127.0.0.1:{proxy.port}", STOCK_RECORDS):
                return count_calls(proxy.pid, seconds, scratch)
        with self._flow(case, proxy, 2 * seconds):
            return count_calls(proxy.pid, seconds, scratch)

    def warm_up(self, proxy: Running, seconds: float) -> None:
        """Let a producer and a consumer send small and large requests through a proxy; keep no figure.

        Raises:
            BenchError: the records do not flow.
        """
        topics, through = Topics(self._cluster.bootstrap, 1), f"127.0.0.1:{proxy.port}"
        for properties in (tools.SMALL_BATCHES, ()):
            topic = topics.make(WARM_UP.partitions)
            with (
                self._consumer(topic, through) as consumer,
                self._producer(WARM_UP, topic, through, ENDLESS, 0, *properties) as producer,
            ):
                await_all(consumer.has_consumed, "nothing is read", [consumer, producer])
                time.sleep(seconds / 2)
            self._drop(topic)

    @contextlib.contextmanager
    def _flow(self, case: Case, proxy: Running, seconds: float) -> Iterator[tuple[Client, Written]]:
        """Yield the producer and the count of its records when the warm-up is over.

        One whose latency is measured ends after about so many seconds, the others with the block.
        """
        direct, through = self._cluster.bootstrap, f"127.0.0.1:{proxy.port}"
        topic = Topics(direct, 1).make(
            case.partitions, retention_bytes=str(256 << 20), segment_bytes=str(64 << 20)
        )
        warm = int(case.pace * WARM_SECONDS)
        records = warm + int(case.pace * seconds) if case.has_latency else ENDLESS
        with contextlib.ExitStack() as stack:
            stack.callback(self._drop, topic)
            consumers = [
                stack.enter_context(self._consumer(topic, through))
                for _ in range(case.clients if case.kind == "consume" else 0)
            ]
            to = direct if consumers else through
            start = self._librdkafka if case.kind == "librdkafka" else self._producer
            producer = stack.enter_context(start(case, topic, to, records, warm))
            written = Written(self._admin, topic, case.partitions)
            await_all(lambda: written.records() >= warm, "no records", [producer, *consumers])
            for each in consumers:
                await_all(each.has_consumed, "nothing is read", [each])
            yield producer, written

    def _read_stock(self, case: Case, proxy: Running, nth: int) -> Sample:
        """Let a consumer read a whole stock; the CPU is that of all its requests, the time that of its fetches."""
        topic = self._stock(case)
        before = _cpu_ns(proxy)
        with self._consumer(topic, f"127.0.0.1:{proxy.port}", STOCK_RECORDS) as consumer:
            consumer.await_end()
        spent = _cpu_ns(proxy) - before
        records, took_s = consumer.fetched()
        size = records * case.record_bytes
        cpu_us = spent / 1000 / records
        return Sample(case.name, proxy.name, nth, records, took_s, size, cpu_us, 0, 0)

    def _stock(self, case: Case) -> str:
        """Return a topic with STOCK_RECORDS records, which stay."""
        if case.partitions not in self._stocks:
            direct = self._cluster.bootstrap
            topic = Topics(direct, 1).make(case.partitions, segment_bytes=str(256 << 20))
            with self._producer(case, topic, direct, STOCK_RECORDS) as producer:
                producer.await_end()
            self._stocks[case.partitions] = topic
        return self._stocks[case.partitions]

    def _drop(self, topic: str) -> None:
        """Delete a topic, so that the disk does not fill."""
        self._admin.delete_topics([topic])[topic].result(timeout=60)

    def _producer(
        self, case: Case, topic: str, to: str, records: int, warm: int = 0, *properties: str
    ) -> Client:
        return self._java_client(*tools.producer(case, topic, to, records, warm, *properties))

    def _consumer(self, topic: str, of: str, records: int = ENDLESS) -> Client:
        return self._java_client(*tools.consumer(topic, of, records, tells=records == ENDLESS))

    def _java_client(self, main: str, *arguments: str) -> Client:
        output = self._output()
        return Client(self._java.start_tool(main, *arguments, output=output), output)

    def _librdkafka(self, case: Case, topic: str, to: str, records: int, warm: int) -> Client:
        output = self._output()
        numbers = (case.clients, case.rate, case.record_bytes, records, warm)
        command = [sys.executable, "-m", "bench.librdkafka_load", to, topic, *map(str, numbers)]
        with output.open("wb") as said, output.with_suffix(".err").open("wb") as errors:
            return Client(subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=errors), output)

    def _output(self) -> Path:
        self._runs += 1
        return self._folder / f"client-{self._runs}"


def _cpu_ns(proxy: Running) -> int:
    return cpu_ns(proxy.pid) if proxy.pid else 0
