"""What a request may cost in the compiled build: Callgrind's instructions, which neither speed nor load changes."""

from pathlib import Path

import pytest

from bench.replay import ceilings
from bench.replay.instructions import count_instructions, missing

pytestmark = pytest.mark.timeout(14_400)  # the build may be part of it


def test_no_case_takes_more_instructions_than_its_ceiling(
    compiled: Path, *, has_slow_tests: bool
) -> None:
    """`make bench-replay` sets the ceilings after a change."""
    if reason := missing():
        pytest.skip(f"instructions are not counted: {reason}")
    made_with, _ = ceilings.load()
    if made_with != ceilings.HERE:
        pytest.skip(f"the ceilings are those of {made_with}, this is {ceilings.HERE}")
    kind = ceilings.INSTRUCTIONS if has_slow_tests else ceilings.UNOPTIMISED

    assert ceilings.exceeded(kind, count_instructions(compiled)) == []
