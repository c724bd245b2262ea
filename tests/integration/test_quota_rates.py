"""A quota holds against clients that try to evade it, one user to each way of trying (T6).

All rows run at once, for twenty seconds. In `entity` enforcement each gets its limit; in `channel` enforcement each
gets the rate of Kafka's own rule. Beside each row the same clients ask without a quota, at the limit's rate: a machine
that is too slow for the rate is too slow for both, so the verdict does not depend on its speed.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.quotas.quota_load import Load, run
from tests.support.quotas.quota_rows import BURST_SECONDS, Row, Tally
from tests.support.quotas.quota_rule import answered_by_rule
from tests.support.quotas.quota_setup import CHANNEL, ENTITY, introduce, quota_sluice, quota_users

pytestmark = pytest.mark.slow

LIMIT = 50.0
WARM_SECONDS = 5.0
WINDOW_SECONDS = 15.0
STALE_SECONDS = 0.25
"""The proxy reads its clock once a step: a request may count as this much older than it is."""
ROWS = (
    Row("sync"),
    Row("pipelined", depth=20),
    Row("crowd", connections=50),
    Row("reconnect", connections=16, reconnect=True, offered_per_s=2 * LIMIT),
    Row("disguise", connections=4, disguise=True),
    Row("nodes", connections=6, nodes=3),
)
FREE = {
    row: replace(row, user=f"free{row.user}", offered_per_s=row.offered_per_s or LIMIT)
    for row in ROWS
}
"""The same clients without a quota."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The answers of both enforcements; `began` by `time.monotonic`, `began_ms` by the proxies' clock."""

    began: float
    began_ms: float
    tallies: dict[str, dict[str, Tally]]

    def rate(self, kind: str, row: Row) -> float:
        """Return the answers per second after the warm-up."""
        start = self.began + WARM_SECONDS
        return self.tallies[kind][row.user].rate(start, start + WINDOW_SECONDS)


@pytest.fixture(scope="module")
def measured(
    kafka_three: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Measured]:
    """Every row in both enforcements at once."""
    folder: Path = tmp_path_factory.mktemp("rates")
    limits = {row.user: {"request_rate": LIMIT} for row in ROWS}
    sluices = {
        kind: quota_sluice(kafka_three, folder / kind, limits, enforcement=kind)
        for kind in (ENTITY, CHANNEL)
    }
    try:
        loads = {}
        for kind, sluice in sluices.items():
            sluice.start()
            introduce(sluice, ROWS[0].user)
            ports = [sluice.node_port(node_id) for node_id in kafka_three.brokers]
            rows = (*ROWS, *FREE.values()) if kind == ENTITY else ROWS
            loads[kind] = Load(sluice.address, ports, rows, quota_users())
        offset_s = time.time() - time.monotonic()
        began = run(loads.values(), WARM_SECONDS + WINDOW_SECONDS)
        tallies = {kind: load.tallies for kind, load in loads.items()}
        yield Measured(began, (began + offset_s) * 1000, tallies)
    finally:
        for sluice in sluices.values():
            sluice.stop()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.user)
def test_an_entity_gets_its_limit_and_no_more(row: Row, measured: Measured) -> None:
    """No interval has more than the limit and one burst; the rate is at most 10 % below that without a quota."""
    tally = measured.tallies[ENTITY][row.user]
    rate, free = measured.rate(ENTITY, row), measured.rate(ENTITY, FREE[row])

    assert not tally.problems, tally.problems[:3]
    for seconds in (1, 5, WARM_SECONDS + WINDOW_SECONDS):
        allowed = LIMIT * (seconds + BURST_SECONDS + STALE_SECONDS) + 1
        assert tally.most_within(seconds) <= allowed, f"in {seconds:g} s"
    assert rate >= 0.9 * min(LIMIT, free), f"{rate:.1f}/s, without a quota {free:.1f}/s"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.user)
def test_a_channel_gets_the_rate_of_kafkas_rule(row: Row, measured: Measured) -> None:
    """The count is that of the rule from the first request on; a client that reconnects escapes the rule."""
    tally = measured.tallies[CHANNEL][row.user]
    seconds = WARM_SECONDS + WINDOW_SECONDS

    assert not tally.problems, tally.problems[:3]
    if row.reconnect:
        rate, free = measured.rate(CHANNEL, row), measured.rate(ENTITY, FREE[row])
        assert rate >= 0.75 * free, f"{rate:.1f}/s, without a quota {free:.1f}/s"
        return
    round_trip_ms = measured.tallies[ENTITY][FREE[row].user].mean_s * 1000
    least = answered_by_rule(row, LIMIT, measured.began_ms, seconds, round_trip_ms)
    most = answered_by_rule(row, LIMIT, measured.began_ms, seconds)
    assert 0.8 * least <= len(tally.answered) <= 1.08 * most
