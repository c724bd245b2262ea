"""The clients of `bench.clients`, what they print, and the count of the records that a broker has written.

A producer says at its end how fast the records after its warm-up were, and their latency. `bench.librdkafka_load`
prints the same line as Kafka's own tool.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own documentation has OffsetSpec there
    AdminClient,
    OffsetSpec,
)

from bench.client_cases import Case
from bench.harness import BenchError
from bench.harness.processes import end

LISTENER: Final = "HAPROXY"
"""The broker's listener that advertises HAProxy's port: HAProxy changes no address."""
SMALL_BATCHES: Final = ("linger.ms=0", "batch.size=1")
"""Properties of a producer that sends each record in a request of its own."""
SUMMARY: Final = re.compile(
    r" steady state records sent, (?P<speed>[\d.]+) records/sec"
    r".* (?P<p50>[\d.]+) ms 50th, .* (?P<p99>[\d.]+) ms 99th"
)
FIRST_RECORD_TIMEOUT_SECONDS: Final = 60
LAST_RECORD_TIMEOUT_SECONDS: Final = 180
_SPEED: Final = 5
"""The column of a consumer's report with the records per second."""


class Steady(NamedTuple):
    """The records of a producer after its warm-up."""

    per_second: float
    p50_us: float
    p99_us: float


class AdvertisedListener:
    """A listener of the broker for the clients of HAProxy."""

    protocols: Final = {LISTENER: "PLAINTEXT"}

    def properties(self, host: str) -> Iterator[str]:
        """Yield nothing: the advertised address is set when HAProxy's port is known."""
        yield from ()

    def format_arguments(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()


class Written:
    """Counts the records of a topic by the end offsets at the broker; the marks of transactions count, too."""

    def __init__(self, admin: AdminClient, topic: str, partitions: int) -> None:
        self._admin = admin
        self._ends = {
            TopicPartition(topic, each): OffsetSpec.latest() for each in range(partitions)
        }

    def records(self) -> int:
        """Return how many records were written."""
        found = self._admin.list_offsets(self._ends, request_timeout=30)
        return sum(each.result().offset for each in found.values())


class Client:
    """A running client, whose output goes to a file; the end of the block ends it."""

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

    def await_end(self) -> None:
        """Wait until it has ended, as a client with a number of records does.

        Raises:
            BenchError: it has failed, or the time is up; with what it said.
        """
        try:
            code = self._process.wait(LAST_RECORD_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            raise BenchError(f"not all records: {self.said()}")

    def steady(self) -> Steady:
        """Return what a producer that has ended said of the records after its warm-up.

        Raises:
            BenchError: it said nothing of them.
        """
        found = SUMMARY.search(self._output.read_text())
        if found is None:
            raise BenchError(f"no summary: {self.said()}")
        p50_us, p99_us = (float(found[name]) * 1000 for name in ("p50", "p99"))
        return Steady(float(found["speed"]), p50_us, p99_us)

    def has_consumed(self) -> bool:
        """Return whether a report of a consumer has records: its sixth column is the records per second.

        Its last line may not be whole yet.
        """
        rows = (line.split(",") for line in self._output.read_text().splitlines())
        return any(len(row) > _SPEED + 1 and float(row[_SPEED]) > 0 for row in rows)

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


def producer(
    case: Case, topic: str, to: str, records: int, warm: int = 0, *properties: str
) -> tuple[str, ...]:
    """Return the command of a producer: its class and arguments. `warm` of its records are its warm-up."""
    more = ("--transaction-duration-ms", str(case.transaction_ms)) if case.transaction_ms else ()
    return (
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", to, "--topic", topic, "--num-records", str(records)),
        *("--throughput", str(case.rate or -1), "--record-size", str(case.record_bytes)),
        *("--warmup-records", str(warm), *more),
        *("--command-property", *case.properties, *properties),
    )


def consumer(topic: str, of: str, records: int, *, tells: bool) -> tuple[str, ...]:
    """Return the command of a consumer of the topic's group: its class and arguments.

    `tells`: it reports twice a second.
    """
    return (
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", of, "--topic", topic, "--num-records", str(records)),
        *("--timeout", "60000", "--hide-header"),
        *(("--show-detailed-stats", "--group", topic) if tells else ()),
        *("--reporting-interval", "500"),
    )


def await_all(condition: Callable[[], bool], problem: str, clients: list[Client]) -> None:
    """Wait until the condition holds.

    Raises:
        BenchError: a client has ended, or the time is up; with what the clients said.
    """
    give_up = time.monotonic() + FIRST_RECORD_TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > give_up or any(each.ended for each in clients):
            raise BenchError(f"{problem}: {'; '.join(each.said() for each in clients)}")
        time.sleep(0.02)
