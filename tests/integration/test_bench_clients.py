"""The bench with real clients, for a second each: records flow through Sluice and through HAProxy."""

from pathlib import Path

import pytest

from bench import clients as bench_clients
from bench.clients import Clients, variants
from bench.clients_report import choose
from bench.variants import DIRECT
from tests.support.kafka.java import Java

pytestmark = pytest.mark.slow


def test_records_flow_through_each_proxy_in_both_directions(java: Java, tmp_path: Path) -> None:
    """A short run with a real Kafka: the proxy spends CPU, and the broker has the records."""
    bench = Clients(tmp_path, java)
    with bench.started(variants([], None)) as running:
        for case in choose("produce-1k,consume-1k"):
            for name, proxy in running.items():
                if name != DIRECT:
                    one = bench.run(case, proxy, 0, 1.0)
                    assert one.requests > 0
                    assert one.cpu_us > 0


def test_a_consumer_reads_the_same_records_with_and_without_a_proxy(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At full speed: all records of the topic, each time."""
    monkeypatch.setattr(bench_clients, "STOCK_RECORDS", 2_000)
    bench = Clients(tmp_path, java)
    (case,) = choose("consume")
    with bench.started(variants([], None)) as running:
        for name, proxy in running.items():
            one = bench.run(case, proxy, 0, 1.0)
            assert one.requests == 2_000
            assert one.seconds > 0
            assert (one.cpu_us == 0) is (name == DIRECT)
