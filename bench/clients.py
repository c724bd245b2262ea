"""`python -m bench.clients`: the proxies under real clients at fixed rates; writes its section of RESULTS.md.

The clients are Kafka's own performance tools (Java), before a real Kafka of one broker. Each proxy has the first core;
broker and clients may use all. A consumer reads what a producer sends directly to the broker at the fixed rate, or all
records of a full topic as fast as it can. All proxies run at once; in each round one is loaded after the other, in
shuffled order, and CPU is read while records flow.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import kafka_clients as tools
from bench.clients_report import Case, choose, goals, section
from bench.figures import Sample, Samples
from bench.goals import tell
from bench.harness import BenchError
from bench.harness.command import first_warm_s, options, peer_options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, load_average, today
from bench.harness.markdown import write_section
from bench.harness.usage import cpu_ns
from bench.kafka_clients import LISTENER, AdvertisedListener, Client, Sent, await_end, await_records
from bench.peer_commands import maybe_haproxy, parse_peer
from bench.running import Running
from bench.variants import DIRECT, HAPROXY, SLUICE, Variant, compiled, first_line
from bench.variants import sluice_command as command_of
from tests.support.kafka.java import Java, KafkaUnavailableError, kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_jars import KAFKA_VERSION
from tests.support.kafka.topics import Topics

NETWORK: Final = 0
"""The third byte of the broker's address, 127.0.0.1."""
WARM_SECONDS: Final = 2
"""Records of so many seconds pass before the first reading."""
FIRST_WARM_S: Final = 10.0
"""The default of `--first-warm` with a peer."""
WARM_UP: Final = Case("warm", "before the first round", 100, 5000)
STOCK_RECORDS: Final = 1_000_000
"""The records of the topic that is read at full speed."""


def variants(peers: list[str], wheel: Path | None = None) -> list[Variant]:
    """Return no proxy, Sluice, HAProxy if it is installed, the peers, and the compiled wheel if given.

    Raises:
        ValueError: a peer is not NAME[@VERSION]=COMMAND.
    """
    program = Path(sys.executable).with_name("sluice")
    ours = Variant(
        SLUICE, first_line([str(program), "version"]), command_of(program, nodes="1-1"), peer=False
    )
    found = [Variant(DIRECT, "clients and broker alone", None), ours]
    if wheel is not None:
        found.append(compiled(program, wheel, nodes="1-1"))
    found += maybe_haproxy()
    return found + [parse_peer(text) for text in peers]


class Clients:
    """A Kafka with its proxies, and the clients of one run at a time."""

    def __init__(self, folder: Path, java: Java) -> None:
        self._folder = folder
        self._java = java
        self._cluster = KafkaCluster(
            folder / "kafka", 1, NETWORK, java, listeners=AdvertisedListener(), heap="1g"
        )
        self._runs = 0
        self._stock = ""

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
                proxy = Running(each, upstream, self._folder / each.name)
                running[each.name] = stack.enter_context(proxy)
            advertised = [f"PLAINTEXT://{broker.address}"]
            if HAPROXY in running:
                advertised.append(f"{LISTENER}://127.0.0.1:{running[HAPROXY].port}")
            self._cluster.settings["advertised.listeners"] = ",".join(advertised)
            stack.callback(self._cluster.stop)
            self._cluster.start()
            yield running

    def run(self, case: Case, proxy: Running, nth: int, seconds: float) -> Sample:
        """Run a case once; return what it cost.

        Raises:
            BenchError: the records do not flow, or a client has ended.
        """
        if not case.rate:
            return self._read_stock(case, proxy, nth)
        assert proxy.pid is not None, "the proxy does not run"
        direct = self._cluster.bootstrap
        topic = Topics(direct, 1).make(retention_bytes=str(256 << 20), segment_bytes=str(64 << 20))
        through = f"127.0.0.1:{proxy.port}"
        with contextlib.ExitStack() as stack:
            clients: list[Client] = []
            if case.consumes:
                clients.append(stack.enter_context(self._consumer(topic, through)))
            to = direct if case.consumes else through
            clients.append(stack.enter_context(self._producer(case, topic, to)))
            sent = stack.enter_context(contextlib.closing(Sent(direct, topic)))
            await_records(lambda: sent.records() >= case.rate * WARM_SECONDS, "no records", clients)
            if case.consumes:
                await_records(clients[0].has_consumed, "the consumer reads nothing", clients)
            began, before, records = time.monotonic(), cpu_ns(proxy.pid), sent.records()
            time.sleep(seconds)
            took_s, spent = time.monotonic() - began, cpu_ns(proxy.pid) - before
            records = sent.records() - records
            if not records or any(each.ended for each in clients):
                raise BenchError(f"{case.title}: {'; '.join(each.said() for each in clients)}")
        cpu_us = spent / 1000 / records
        size = records * case.record_bytes
        return Sample(case.name, proxy.name, nth, records, took_s, size, cpu_us, 0, 0)

    def warm_up(self, proxy: Running, seconds: float) -> None:
        """Let a producer and a consumer send many requests through a proxy; keep no figure.

        Raises:
            BenchError: the records do not flow.
        """
        topic, through = Topics(self._cluster.bootstrap, 1).make(), f"127.0.0.1:{proxy.port}"
        with (
            self._consumer(topic, through) as consumer,
            self._producer(WARM_UP, topic, through, more=tools.SMALL_BATCHES) as producer,
        ):
            await_records(consumer.has_consumed, "the consumer reads nothing", [consumer, producer])
            time.sleep(seconds)

    def _read_stock(self, case: Case, proxy: Running, nth: int) -> Sample:
        """Let a consumer read the whole stock; the CPU is that of all its requests, the time that of its fetches."""
        topic = self._stock = self._stock or self._fill(case)
        before = cpu_ns(proxy.pid) if proxy.pid else 0
        with self._consumer(topic, f"127.0.0.1:{proxy.port}", STOCK_RECORDS) as consumer:
            await_end(consumer)
        spent = cpu_ns(proxy.pid) - before if proxy.pid else 0
        records, took_s = consumer.fetched()
        size = records * case.record_bytes
        cpu_us = spent / 1000 / records
        return Sample(case.name, proxy.name, nth, records, took_s, size, cpu_us, 0, 0)

    def _fill(self, case: Case) -> str:
        """Return a topic with STOCK_RECORDS records, which stay."""
        topic = Topics(self._cluster.bootstrap, 1).make(segment_bytes=str(256 << 20))
        with self._producer(case, topic, self._cluster.bootstrap, STOCK_RECORDS) as producer:
            await_end(producer)
        return topic

    def _producer(
        self, case: Case, topic: str, to: str, records: int = 10**9, more: tuple[str, ...] = ()
    ) -> "Client":
        return self._client(*tools.producer(case, topic, to, records), *more)

    def _consumer(self, topic: str, of: str, records: int = 10**9) -> "Client":
        return self._client(*tools.consumer(topic, of, records, tells=records > STOCK_RECORDS))

    def _client(self, main: str, *arguments: str) -> "Client":
        self._runs += 1
        output = self._folder / f"client-{self._runs}"
        return Client(self._java.start_tool(main, *arguments, output=output), output)


def measure(given: argparse.Namespace) -> tuple[Samples, list[Case], list[Variant]]:
    """Run what the command line asks for.

    Raises:
        BenchError: there is no Kafka, or a proxy does not start.
        ValueError: a case is unknown.
    """
    cases = choose(given.cases)
    try:
        java = kafka_java()
    except KafkaUnavailableError as error:
        raise BenchError(f"no real Kafka: {error}") from error
    samples, order = Samples(), random.Random(given.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-clients-")))
        wheel = None
        if reason := missing():
            print(f"without the compiled build: {reason}", flush=True)
        else:
            unpack_compiled(wheel := folder / "wheel")
        chosen = variants(given.peer, wheel)
        clients = Clients(folder, java)
        running = stack.enter_context(clients.started(chosen))
        if warm := first_warm_s(given, FIRST_WARM_S):
            for each in chosen:
                if each.given and each.name in running:
                    clients.warm_up(running[each.name], warm)
        for nth in range(given.rounds):
            for case in order.sample(cases, len(cases)):
                names = [name for name in running if not case.rate or name != DIRECT]
                for name in order.sample(names, len(names)):
                    samples.add(clients.run(case, running[name], nth, given.seconds))
            print(f"round {nth + 1} of {given.rounds}", flush=True)
    return samples, cases, chosen


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = options("bench.clients", __doc__, rounds=3, seconds=8.0, seed=1)
    parser.add_argument("--cases", default="", help="comma-separated; default: all")
    peer_options(parser)
    given = parser.parse_args(arguments)
    samples, cases, chosen = measure(given)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
        "before the first round": f"{first_warm_s(given, FIRST_WARM_S):g} s for each given peer",
        "load average at the end": load_average(),
        "Kafka": KAFKA_VERSION,
        **describe(),
        **{each.name: each.version for each in chosen},
    }
    names = [each.name for each in chosen]
    write_section(given.out, "clients", section(samples, cases, names, facts))
    tell(goals(samples, cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
