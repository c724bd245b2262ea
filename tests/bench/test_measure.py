"""Runs through live programs, as short as they can be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.build import build, maybe_compiler
from bench.harness.machine import raise_descriptor_limit
from bench.measure import Bench, measure
from bench.peer_commands import parse_peer, relay_command
from bench.shapes import Shape
from bench.variants import DIRECT, RELAY, Variant

pytestmark = pytest.mark.skipif(maybe_compiler() is None, reason="no C compiler")
SHAPE = Shape("s", "s", 2)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A broker on two cores, or one."""
    raise_descriptor_limit()
    made = Bench(build(tmp_path / "bin"), tmp_path)
    yield made
    made.close()


def test_each_variant_is_measured_in_each_round(bench: Bench) -> None:
    """CPU time is a proxy's alone: direct has none, the relay has some."""
    variants = [
        Variant(DIRECT, "", None),
        Variant(RELAY, "", relay_command(bench.programs["relay"])),
    ]
    found = measure(bench, variants, [SHAPE], 2, 0.05, 0.02, seed=1)
    assert sorted((one.variant, one.round) for one in found.all()) == [
        (DIRECT, 0),
        (DIRECT, 1),
        (RELAY, 0),
        (RELAY, 1),
    ]
    assert all((one.cpu_us > 0) == (one.variant == RELAY) for one in found.all())


def test_a_peer_that_does_not_start_is_left_out(bench: Bench) -> None:
    """The others are measured all the same."""
    variants = [Variant(DIRECT, "", None), parse_peer("error=false")]
    found = measure(bench, variants, [SHAPE], 1, 0.05, 0.02, seed=1)
    assert {one.variant for one in found.all()} == {DIRECT}


def test_a_run_that_fails_is_recorded_with_its_reason(bench: Bench) -> None:
    """Load refuses a depth of zero; nothing of that run is kept."""
    found = measure(
        bench, [Variant(DIRECT, "", None)], [Shape("bad", "bad", 1, depth=0)], 2, 0.05, 0.02, seed=1
    )
    assert not found.all()
    assert "-d 1 to" in found.failures["bad", DIRECT]


def test_the_footprint_grows_with_pairs(bench: Bench) -> None:
    """Memory at rest, start-up and idle CPU of a proxy that keeps something for each connection."""
    relay = Variant(RELAY, "", relay_command(bench.programs["relay"]))
    found = bench.footprint(relay, [50, 400], starts=2, idle_seconds=0.1)
    assert set(found.resident_bytes) == {0, 50, 400}
    assert found.bytes_per_pair > 100
    assert len(found.accept_seconds) == len(found.answer_seconds) == 2
    assert all(a <= b for a, b in zip(found.accept_seconds, found.answer_seconds, strict=True))
