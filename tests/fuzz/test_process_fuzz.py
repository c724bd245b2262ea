"""`sluice run` between hostile clients and a lying broker; `process_fuzz` lists the rules."""

import os
from pathlib import Path

import pytest

from tests.fuzz.process_fuzz import fuzz

SECONDS = float(os.environ.get("SECONDS", "5"))
SEED = int(os.environ.get("SEED", "1"))
HONEST_P99_MS = float(os.environ.get("HONEST_P99_MS", "0"))
"""0: told, not judged."""

pytestmark = pytest.mark.timeout(SECONDS + 1800)


def test_hostile_clients_and_a_lying_broker_affect_no_honest_client(tmp_path: Path) -> None:
    """Clients mutate, cut, dribble, stand still and leave; a broker stops, repeats, reorders and mutates."""
    outcome = fuzz(tmp_path, SEED, SECONDS, wild=0.2, lies=0.2)
    print(outcome)  # noqa: T201 - shown by `make fuzz`
    assert outcome.connections
    assert outcome.replies
    assert outcome.waits_s
    assert not HONEST_P99_MS or outcome.p99_ms() <= HONEST_P99_MS, str(outcome)
