"""Under any chunking a session does the same as a plain model that handles one frame at a time."""

import os
from random import Random

import pytest

from proxy.core.stats.topic_usage import TopicUsage
from tests.support.messages import frames as f
from tests.support.model.differential import Run
from tests.support.model.differential_counts import counted, sampled
from tests.support.model.scripts import script

SEEDS = int(os.environ.get("SLUICE_DIFFERENTIAL_SEEDS", "10000"))
PARTS = 20
QUICK = 4
"""So many parts are played by `make test`, all by `make test-all`."""
LAW_SEEDS = 160
WHOLE = (1 << 18,)
CUT = (1, 7, 30)


def run(seed: int) -> None:
    """Run one seed; a failure names it."""
    rng = Random(seed)
    made = script(rng, seed)
    try:
        Run(made, rng, topic_usage=None if seed % 5 else TopicUsage(), **sampled(seed)).go()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize(
    "part",
    [*range(QUICK), *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK, PARTS))],
)
def test_a_session_does_what_the_plain_model_does(part):
    """Any chunking and interleaving, both sides, all verdicts, small pools, brokers late, silent and lost; requests are
    sampled and counted by topic or not.
    """
    first, after = (part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    for seed in range(first, after):
        run(seed)


def counts_of(seed: int, chunks: tuple[int, ...], *, fast: bool, topics: bool) -> dict[str, object]:
    """Return the counts of one script; of the replies the whole ones: a broker may die inside the last."""
    counts = counted(seed, chunks, fast=fast, topics=topics)[0]
    counts["replies"] = f.whole_frames(counts["replies"])
    return counts


@pytest.mark.parametrize("topics", [False, True], ids=["", "topics"])
@pytest.mark.parametrize("part", range(4))
def test_the_fast_loop_and_the_general_path_count_and_report_the_same(part, topics):
    """Meters, usage, topics, completions and close reasons of the same traffic are equal."""
    for seed in range(part, LAW_SEEDS, 4):
        fast = counts_of(seed, WHOLE, fast=True, topics=topics)
        general = {
            "cut": counts_of(seed, CUT, fast=True, topics=topics),
            "whole, no plan fast": counts_of(seed, WHOLE, fast=False, topics=topics),
            "cut, no plan fast": counts_of(seed, CUT, fast=False, topics=topics),
        }
        for path, counts in general.items():
            for name, count in fast.items():
                assert counts[name] == count, f"seed {seed}, {path}: {name}"
