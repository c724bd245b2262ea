"""Kafka's own performance tools as running clients, the broker's listener for those of HAProxy, and the count of the
records that a broker has written.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, TopicPartition

from bench.clients_report import Case
from bench.harness import BenchError
from bench.harness.processes import end

LISTENER: Final = "HAPROXY"
"""The broker's listener that advertises HAProxy's port: HAProxy changes no address."""
SMALL_BATCHES: Final = ("--producer-props", "linger.ms=0", "batch.size=1")
"""Further arguments of a producer that sends each record in a request of its own."""
FIRST_RECORD_TIMEOUT_SECONDS: Final = 60
LAST_RECORD_TIMEOUT_SECONDS: Final = 120


class AdvertisedListener:
    """A listener of the broker for the clients of HAProxy."""

    protocols: Final = {LISTENER: "PLAINTEXT"}

    def properties(self, host: str) -> Iterator[str]:
        """Yield nothing: the advertised address is set when HAProxy's port is known."""
        yield from ()

    def format_arguments(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()


class Client:
    """A running tool; the end of the block ends it."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    @property
    def ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._process.poll() is not None

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it has ended; return its exit code, or None if it runs still."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def has_consumed(self) -> bool:
        """Return whether the last report of a consumer has records: its seventh column is the records per second."""
        lines = self._output.read_text().splitlines()
        return bool(lines) and float(lines[-1].split(",")[5]) > 0

    def fetched(self) -> tuple[int, float]:
        """Return how many records a consumer that has ended fetched, and in how many seconds: its fifth and eighth
        column. The time to join its group is not among them.
        """
        columns = self._output.read_text().splitlines()[-1].split(",")
        return int(columns[4]), float(columns[7]) / 1000

    def said(self) -> str:
        """Return the ends of its output and of its errors."""
        files = (self._output, self._output.with_suffix(".err"))
        return " ".join(file.read_text(errors="replace")[-200:].strip() for file in files)


class Sent:
    """Counts the records of a topic of one partition, by its end offset at the broker."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        self._partition = TopicPartition(topic, 0)

    def records(self) -> int:
        """Return how many records were written."""
        _, written = self._consumer.get_watermark_offsets(self._partition, timeout=30)
        return int(written)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


def producer(case: Case, topic: str, to: str, records: int) -> tuple[str, ...]:
    """Return the command of a producer: its class and arguments."""
    return (
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", to, "--topic", topic, "--num-records", str(records)),
        *("--throughput", str(case.rate or -1), "--record-size", str(case.record_bytes)),
    )


def consumer(topic: str, of: str, records: int, *, tells: bool) -> tuple[str, ...]:
    """Return the command of a consumer: its class and arguments. `tells`: it reports twice a second."""
    return (
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", of, "--topic", topic, "--num-records", str(records)),
        *("--timeout", "60000", "--hide-header"),
        *(("--show-detailed-stats",) if tells else ()),
        *("--reporting-interval", "500"),
    )


def await_end(client: Client) -> None:
    """Wait until a client with a number of records has ended.

    Raises:
        BenchError: it has failed, or the time is up; with what it said.
    """
    if client.wait(LAST_RECORD_TIMEOUT_SECONDS) != 0:
        raise BenchError(f"not all records: {client.said()}")


def await_records(condition: Callable[[], bool], problem: str, clients: list[Client]) -> None:
    """Wait until the condition holds.

    Raises:
        BenchError: a client has ended, or the time is up; with what the clients said.
    """
    give_up = time.monotonic() + FIRST_RECORD_TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > give_up or any(each.ended for each in clients):
            raise BenchError(f"{problem}: {'; '.join(each.said() for each in clients)}")
        time.sleep(0.1)
