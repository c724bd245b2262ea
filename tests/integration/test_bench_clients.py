"""The bench with real clients, for a second each: records flow through Sluice and through HAProxy."""

from pathlib import Path

from bench.clients import Clients, variants
from bench.clients_report import choose
from tests.support.java import Java


def test_records_flow_through_each_proxy_in_both_directions(java: Java, tmp_path: Path) -> None:
    """A short run with a real Kafka: the proxy spends CPU, and the broker has the records."""
    bench = Clients(tmp_path, java)
    with bench.started(variants([], None)) as running:
        for case in choose("produce-1k,consume-1k"):
            for proxy in running.values():
                one = bench.run(case, proxy, 0, 1.0)
                assert one.requests > 0
                assert one.cpu_us > 0
