"""The gate of the quota policy against the plain path: random plays have the same effects, to the last digit."""

import os
from random import Random

import pytest

from policies.api import Policy
from policies.quota.gate import QuotaGate
from policies.quota.policy import Quota
from tests.support.quotas.quota_plays import Play
from tests.support.quotas.quota_scripts import script

SEEDS = int(os.environ.get("SLUICE_GATE_SEEDS", "1000"))
PARTS = 8
QUICK = 2
"""So many parts are played by `make test`, all by `make test-all`."""


class Plain(Quota):
    """The policy without its gates."""

    gate = Policy.gate


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@pytest.mark.parametrize(
    "part",
    [*range(QUICK), *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK, PARTS))],
)
def test_with_and_without_its_gates_a_quota_does_the_same(part, enforcement):
    """Bytes, usage rows, traces, meters and buckets are equal, under live changes, reloads and disconnects."""
    share = SEEDS if enforcement == "entity" else SEEDS // 6
    for seed in range(part * share // PARTS, (part + 1) * share // PARTS):
        made = script(Random(seed), enforcement)
        plain, gated = Play(made, Plain).run(), Play(made, Quota).run()
        assert gated.errors == plain.errors == [], f"seed {seed}"
        for name, found in gated._asdict().items():
            assert found == getattr(plain, name), f"seed {seed}: {name}"


def test_the_gates_pass_requests_in_these_plays(monkeypatch):
    """The comparison is about something: many requests pass a gate, and many do not."""
    passed: list[bool] = []
    real = QuotaGate.passes

    def passes(self, size_bytes, now_ms):
        says = real(self, size_bytes, now_ms)
        passed.append(says)
        return says

    monkeypatch.setattr(QuotaGate, "passes", passes)
    for seed in range(40):
        Play(script(Random(seed), "entity"), Quota).run()
    assert min(passed.count(True), passed.count(False)) > 20
