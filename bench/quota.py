"""`python -m bench.quota`: the rates that quotas allow, with a real Kafka; writes its section of bench/RESULTS.md.

The exit code is 1 if a bound of `entity` enforcement was not kept. Tests run the same loads for a shorter time
(`tests/integration/test_quota_rates.py`, `test_quota_clients.py`).
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.command import options
from bench.harness.machine import describe, today
from bench.harness.markdown import columns, facts_line, table, write_section
from tests.support.kafka.franz_go import FranzUnavailableError, franz_program
from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_jars import KAFKA_VERSION
from tests.support.kafka.kafka_sasl import SaslListener
from tests.support.quotas.quota_joined import LIMITS, measure_joined
from tests.support.quotas.quota_load import Load, run
from tests.support.quotas.quota_rows import Row
from tests.support.quotas.quota_rule import answered_by_rule
from tests.support.quotas.quota_setup import CHANNEL, ENTITY, introduce, quota_sluice, quota_users
from tests.support.quotas.quota_together import (
    FRANZ,
    GROUP_LIMIT,
    GROUPS,
    HONOUR,
    PRODUCER_LIMIT,
    Together,
    measure_together,
)

LIMIT = 100.0
MIN_SHARE, MAX_SHARE = 0.9, 1.05
METHOD = """\
Made by `make bench-quota`: a real Apache Kafka; users authenticate by SASL PLAIN; each row is a separate user."""
WAYS_TEXT = """\
The rate must be within +5 % / -10 % of the limit in `entity` enforcement. `channel` is Kafka's rule with its
loopholes; *by the rule* is the result of a simulation of that rule for the same client and duration."""
CLIENTS_TEXT = """\
Throttle times are in ms, average / maximum over the run. *Written* is what Sluice wrote into the replies, read
between client and Sluice; *client's own* is the client's own metric."""
BOTH_TEXT = """\
Limits are in requests/s; the broker's limit is one of bytes, enforced as Kafka does. If the two are combined
correctly, the lower one is the rate; counted twice, equal limits would give half of it."""

WAYS = {
    Row("sync"): "one connection, one request at a time",
    Row("pipelined", depth=20): "one connection, 20 in flight",
    Row("crowd", connections=50): "50 connections",
    Row("reconnect", connections=16, reconnect=True, offered_per_s=2 * LIMIT): (
        "a new connection and authentication for each request"
    ),
    Row("disguise", connections=4, disguise=True): "a random client id in each request",
    Row("nodes", connections=6, nodes=3): "three brokers' ports at once",
}
CLIENTS = {
    "python": "kafka-python, producer",
    "java": "Java, producer",
    "franz": "franz-go, producer",
    "librdkafka": "librdkafka, producer",
    "member": "kafka-python, two members of a group",
    "rdmember": "librdkafka, two members of a group (KIP-848)",
}


@dataclass(slots=True)
class Way:
    """One way to evade a limit; rates in requests per second, `rule` is the rate by Kafka's rule."""

    title: str
    entity: float
    entity_longest_s: float
    channel: float
    rule: float | None

    @property
    def kept(self) -> bool:
        """Return whether the rate was within the bounds of the limit."""
        return MIN_SHARE * LIMIT <= self.entity <= MAX_SHARE * LIMIT


@dataclass(slots=True)
class Client:
    """One client; throttle times in ms, average and maximum. `honours`: it waits as told by throttle_time_ms."""

    title: str
    honours: bool
    limit: float
    rate: float
    longest_s: float
    reconnects: int
    errors: int
    written: tuple[float, float]
    told: tuple[float | None, float | None]

    @property
    def kept(self) -> bool:
        """Return whether the rate was within the bounds, without reconnects and errors."""
        near = MIN_SHARE * self.limit <= self.rate <= MAX_SHARE * self.limit
        return near and not self.reconnects and not self.errors


@dataclass(slots=True)
class Both:
    """Sluice's and the broker's quota together; requests per second."""

    ours: float
    brokers: float
    rate: float


@dataclass(slots=True)
class Found:
    """The results of one run."""

    ways: list[Way] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    both: list[Both] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


def measure(warm_s: float, window_s: float) -> Found:
    """Measure everything; takes about 2.5 times the seconds, and the start of two clusters."""
    found = Found()
    with tempfile.TemporaryDirectory(prefix="sluice-quota-") as name:
        folder = Path(name)
        with _cluster(folder / "three", 3, 17) as cluster:
            found.ways = _measure_ways(cluster, folder, warm_s, window_s)
        with _cluster(folder / "one", 1, 18) as cluster:
            program = None
            try:
                program = franz_program()
            except FranzUnavailableError as error:
                found.facts[CLIENTS[FRANZ]] = f"not measured: {error}"
            with ThreadPoolExecutor(1) as pool:
                joined = pool.submit(measure_joined, cluster, folder / "both", warm_s + window_s)
                together = measure_together(
                    cluster, kafka_java(), program, folder, warm_s, window_s
                )
            found.clients = [_client(together, name) for name in CLIENTS if name in together.talks]
            start = joined.result().began + warm_s
            found.both = [
                Both(ours, brokers, joined.result().tallies[user].rate(start, start + window_s))
                for user, (ours, brokers) in LIMITS.items()
            ]
    found.facts |= {
        "date": today(),
        "rows": f"{window_s:g} s after {warm_s:g} s of warm-up; all rows of a table at once",
        "Kafka": KAFKA_VERSION,
        **describe(),
    }
    return found


def _measure_ways(cluster: KafkaCluster, folder: Path, warm_s: float, window_s: float) -> list[Way]:
    rates: dict[str, dict[Row, float]] = {}
    longest: dict[Row, float] = {}
    rule: dict[Row, float | None] = {}
    for kind in (ENTITY, CHANNEL):
        limits = {row.user: {"request_rate": LIMIT} for row in WAYS}
        sluice = quota_sluice(cluster, folder / kind, limits, enforcement=kind)
        sluice.start()
        try:
            introduce(sluice, next(iter(limits)))
            ports = [sluice.node_port(node_id) for node_id in cluster.brokers]
            load = Load(sluice.address, ports, WAYS, quota_users())
            offset_s = time.time() - time.monotonic()
            began = run([load], warm_s + window_s)
        finally:
            sluice.stop()
        start = began + warm_s
        rates[kind] = {row: load.tallies[row.user].rate(start, start + window_s) for row in WAYS}
        for row in WAYS:
            tally = load.tallies[row.user]
            assert not tally.problems, f"{kind}, {row.user}: {tally.problems[:3]}"
            if kind == ENTITY:
                longest[row] = tally.longest_s
            else:
                before, whole = (
                    answered_by_rule(row, LIMIT, (began + offset_s) * 1000, seconds)
                    for seconds in (warm_s, warm_s + window_s)
                )
                rule[row] = None if row.reconnect else (whole - before) / window_s
    return [
        Way(title, rates[ENTITY][row], longest[row], rates[CHANNEL][row], rule[row])
        for row, title in WAYS.items()
    ]


def _client(together: Together, name: str) -> Client:
    written = together.throttle_ms(name)
    told = together.told.get(name)
    members = together.members.get(name, [])
    return Client(
        title=CLIENTS[name],
        honours=name in HONOUR or name == "member",
        limit=GROUP_LIMIT if name in GROUPS else PRODUCER_LIMIT,
        rate=together.rate(name),
        longest_s=together.longest_s(name),
        reconnects=len(together.came_or_went(name)),
        errors=len(told.errors if told else []) + sum(len(one.errors) for one in members),
        written=(sum(written) / len(written), max(written)),
        told=(told.throttle_avg_ms, told.throttle_max_ms) if told else (None, None),
    )


@contextmanager
def _cluster(folder: Path, size: int, network: int) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(folder, size, network, listeners=SaslListener(quota_users()))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def section(found: Found) -> str:
    """Return the section of RESULTS.md."""
    parts = [
        "## Rates under quotas",
        METHOD,
        f"### Attempts to evade {LIMIT:g} requests/s",
        WAYS_TEXT,
        columns(
            found.ways,
            [
                ("", lambda way: way.title),
                ("`entity`, requests/s", lambda way: f"{way.entity:.1f}"),
                ("", _verdict),
                ("longest wait, s", lambda way: f"{way.entity_longest_s:.2f}"),
                ("`channel`, requests/s", lambda way: f"{way.channel:.1f}"),
                ("by the rule", lambda way: "unlimited" if way.rule is None else f"{way.rule:.1f}"),
            ],
        ),
        "### Clients under a quota",
        CLIENTS_TEXT,
        columns(
            found.clients,
            [
                ("", lambda client: client.title),
                ("honours throttle_time_ms", lambda client: "yes" if client.honours else "no"),
                ("limit", lambda client: f"{client.limit:g}"),
                ("requests/s", lambda client: f"{client.rate:.2f}"),
                ("", _verdict),
                ("longest wait, s", lambda client: f"{client.longest_s:.2f}"),
                ("reconnects", lambda client: str(client.reconnects)),
                ("errors", lambda client: str(client.errors)),
                ("written", lambda client: _pair(client.written)),
                ("client's own", lambda client: _pair(client.told)),
            ],
        ),
        "### The broker's quota and Sluice's",
        BOTH_TEXT,
        table(
            ["Sluice's", "broker's", "requests/s"],
            [[f"{one.ours:g}", f"{one.brokers:g}", f"{one.rate:.2f}"] for one in found.both],
        ),
        facts_line(found.facts),
    ]
    return "\n\n".join(parts)


def _verdict(row: Way | Client) -> str:
    return "kept" if row.kept else "**NOT KEPT**"


def _pair(figures: tuple[float | None, float | None]) -> str:
    return " / ".join("-" if figure is None else f"{figure:.0f}" for figure in figures)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    given = options("bench.quota", __doc__, warm=15.0, seconds=60.0).parse_args(arguments)
    found = measure(given.warm, given.seconds)
    write_section(given.out, "quota", section(found))
    rows: list[Way | Client] = [*found.ways, *found.clients]
    broken = [each.title for each in rows if not each.kept]
    for title in broken:
        print(f"NOT KEPT: {title}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
