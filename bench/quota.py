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
from pathlib import Path

from bench.harness.command import options
from bench.harness.machine import describe, today
from bench.harness.markdown import write_section
from bench.quota_report import LIMIT, Both, Client, Found, Way, section
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
