"""T6: what a quota lets through of those who try to evade it, one user to each way of trying.

All ways run at once, for twenty seconds: in `entity` enforcement none gets more than its limit, or less; in `channel`
enforcement each gets what Kafka's own rule gives it, which is another thing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.quota_load import Load, run
from tests.support.quota_rows import BURST_SECONDS, Row, Tally
from tests.support.quota_rule import answered_by_rule
from tests.support.quota_setup import CHANNEL, ENTITY, introduce, quota_sluice, quota_users

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LIMIT = 50.0
WARM_SECONDS = 5.0
WINDOW_SECONDS = 15.0
LATE_SECONDS = 1.5
ROWS = (
    Row("sync"),
    Row("pipelined", depth=20),
    Row("crowd", connections=50),
    Row("reconnect", connections=16, reconnect=True, offered_per_s=2 * LIMIT),
    Row("disguise", connections=4, disguise=True),
    Row("nodes", connections=6, nodes=3),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What both enforcements let through; `began` by `time.monotonic`, `began_ms` by the proxies' clock."""

    began: float
    began_ms: float
    tallies: dict[str, dict[str, Tally]]


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
            loads[kind] = Load(sluice.address, ports, ROWS, quota_users())
        offset_s = time.time() - time.monotonic()
        began = run(loads.values(), WARM_SECONDS + WINDOW_SECONDS)
        tallies = {kind: load.tallies for kind, load in loads.items()}
        yield Measured(began, (began + offset_s) * 1000, tallies)
    finally:
        for sluice in sluices.values():
            sluice.stop()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.user)
def test_nobody_evades_the_quota_of_an_entity(row: Row, measured: Measured) -> None:
    """The accepted rate is the limit, +5 % / -10 %; no stretch has more than a burst above it; nobody is cut off."""
    tally = measured.tallies[ENTITY][row.user]
    start = measured.began + WARM_SECONDS
    rate = tally.rate(start, start + WINDOW_SECONDS)

    assert not tally.problems, tally.problems[:3]
    assert 0.9 * LIMIT <= rate <= 1.05 * LIMIT, f"{rate:.1f}/s"
    for seconds in (5, WINDOW_SECONDS):
        # Answers are counted: on a slow machine those to requests let through before may fall into the stretch.
        most = LIMIT * (seconds + LATE_SECONDS + BURST_SECONDS) + 1
        assert tally.most_within(seconds) <= most


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.user)
def test_a_channel_gets_what_kafkas_rule_gives(row: Row, measured: Measured) -> None:
    """What the rule lets through from the first request on, or a little less; who reconnects has all it asks for."""
    tally = measured.tallies[CHANNEL][row.user]
    seconds = WARM_SECONDS + WINDOW_SECONDS

    assert not tally.problems, tally.problems[:3]
    if row.reconnect:
        rate = tally.rate(measured.began + WARM_SECONDS, measured.began + seconds)
        assert rate > 1.2 * LIMIT, f"{rate:.1f}/s"
        return
    expected = answered_by_rule(row, LIMIT, measured.began_ms, seconds)
    # A slow machine answers later than the rule allows, never earlier.
    assert 0.8 * expected <= len(tally.answered) <= 1.08 * expected
