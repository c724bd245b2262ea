"""The bench with real clients, for a second each: records flow through Sluice and through HAProxy."""

from pathlib import Path

import pytest

from bench import client_runs
from bench.client_cases import choose
from bench.client_runs import Clients
from bench.clients import variants
from bench.variants import DIRECT, SLUICE
from tests.support.kafka.java import Java

pytestmark = pytest.mark.slow
RATES = "rate-1k-4p,rate-transactions-12p,rate-group-12p,rate-librdkafka-12p"


def test_records_flow_through_each_proxy_in_both_directions(java: Java, tmp_path: Path) -> None:
    """A short run of each kind of client with a real Kafka: the proxy spends CPU, and the broker has the records."""
    bench = Clients(tmp_path, java)
    with bench.started(variants([], None)) as running:
        for case in choose(RATES):
            for name, proxy in running.items():
                one = bench.run(case, proxy, 0, 1.0)
                assert one.requests > 0, case.name
                assert (one.cpu_us > 0) is (name != DIRECT), case.name
                assert (one.p99_us >= one.p50_us and one.p99_us > 0) is case.has_latency, case.name
        if calls := bench.count(choose("rate-1k-4p")[0], running[SLUICE], 1.0):
            assert calls.sends > 0


def test_a_consumer_reads_the_same_records_with_and_without_a_proxy(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At full speed: all records of the topic, each time."""
    monkeypatch.setattr(client_runs, "STOCK_RECORDS", 2_000)
    bench = Clients(tmp_path, java)
    (case,) = choose("consume-1k-4p")
    with bench.started(variants([], None)) as running:
        for name, proxy in running.items():
            one = bench.run(case, proxy, 0, 1.0)
            assert one.requests == 2_000
            assert one.seconds > 0
            assert (one.cpu_us == 0) is (name == DIRECT)
