"""The memory benchmark's cases on a real Kafka, each in small:
they measure their figures, and no honest client is refused.

The benchmark judges its goals itself, on an idle machine and with the full load.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.harness import BenchError
from bench.memory import burst, container, mixed, slow, slowloris, unread
from bench.memory.figures import Case
from bench.memory.kafka import Kafka, running_kafka

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The benchmark's own broker."""
    try:
        with running_kafka(tmp_path_factory.mktemp("memory")) as running:
            yield running
    except BenchError as error:
        if os.environ.get("SLUICE_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(str(error))


def measured(case: Case, part: str) -> float:
    """Return the figure of the goal that has this in its name."""
    (goal,) = [goal for goal in case.goals if part in goal.what]
    assert goal.measured is not None
    return goal.measured.median


def test_the_mix_is_answered_both_ways(kafka: Kafka, tmp_path: Path) -> None:
    """Both sizes, whole, streaming and direct, with no client refused."""
    case = mixed.measure(kafka, tmp_path, run_s=5, clients=10)
    assert [row[0] for row in case.rows] == ["sluice, whole", "sluice, streaming", "direct"]
    for title, *counts in case.rows:
        assert int(counts[0].replace(",", "")) > 0
        assert int(counts[1].replace(",", "")) > 0
        if title != "direct":
            assert measured(case, f"{title}: connections ended") == 0, case.left_out


def test_replies_held_for_clients_that_do_not_read_are_measured(
    kafka: Kafka, tmp_path: Path
) -> None:
    """A part of 20 MB each is held, far from all of it; honest clients are served."""
    case = unread.measure(kafka, tmp_path, consumers=20, baseline_s=1, stand_s=1)
    assert 0 <= measured(case, "median") <= measured(case, "held for a consumer, greatest") < 1024
    assert measured(case, "problems") == 0, case.left_out
    assert {int(row[1]) > 0 for row in case.rows if row[0] != "while they come"} == {True}


def test_honest_producers_are_acknowledged_during_an_attack(kafka: Kafka, tmp_path: Path) -> None:
    """The attack is by few clients, for a short time; all records are acknowledged."""
    case = slowloris.measure(kafka, tmp_path, attackers=20, baseline_s=1, watch_s=3)
    assert measured(case, "problems") == 0, case.left_out
    assert [int(row[1].replace(",", "")) > 0 for row in case.rows] == [True, True]


def test_a_burst_is_acknowledged_every_way(kafka: Kafka, tmp_path: Path) -> None:
    """Through Sluice, through each peer that is installed, and directly."""
    case = burst.measure(kafka, tmp_path, connections=10)
    assert {"sluice, whole", "sluice, streaming", "direct"} <= {row[0] for row in case.rows}
    assert all(row[1:3] == ["10", "0"] for row in case.rows), case.left_out


def test_a_small_container_is_survived(kafka: Kafka, tmp_path: Path) -> None:
    """A little of both loads fits the limit; without a cgroup the reason is given."""
    case = container.measure(kafka, tmp_path, run_s=2, clients=8, connections=8)
    if "the whole case" in case.left_out:
        pytest.skip(case.left_out["the whole case"])
    assert measured(case, "killed") == 0
    assert measured(case, "not acknowledged") == 0
    assert measured(case, "connections ended") == 0, case.left_out


def test_honest_requests_are_acknowledged_beside_slow_ones(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few slow clients, streaming and whole, for a short time; all honest requests are acknowledged."""
    ways = [replace(way, clients=5, addresses=min(way.addresses, 5)) for way in slow.WAYS[:2]]
    monkeypatch.setattr(slow, "WAYS", ways)
    monkeypatch.setattr(slow, "SETTLED_SECONDS", 0.5)
    case = slow.measure(kafka, tmp_path, run_s=3)
    assert len(case.rows) == 3
    for way in ways:
        assert measured(case, f"{way.title}: problems") == 0, case.left_out
    assert all(int(row[1].replace(",", "")) > 0 for row in case.rows)
