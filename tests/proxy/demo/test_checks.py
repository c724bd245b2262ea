"""Checks: a good run passes each of them, and each fault fails its own check."""

from dataclasses import replace

import pytest

from proxy.demo.checks import MIN_STEADY, Evidence, Phase, Sample, judge, summary
from proxy.demo.processes import ClientResult

ADVERTISED = {1: "127.0.0.1:20002", 2: "127.0.0.1:20003"}
LEAKED = {**ADVERTISED, 2: "127.0.0.1:9092"}
ALONE = Sample(7.0, 9.0, 0)
SLOWED = Sample(34.0, 64.0, 18_000)
LIMITED = Sample(7.6, 17.0, 50, 49)
GOOD_RESULT = ClientResult(100, 0)


def sampled(
    *alone: Sample, no_quota: Sample = SLOWED, quota: Sample = LIMITED
) -> dict[Phase, list[Sample]]:
    """Return samples of a quiet machine, or those given for the phase without a noisy client."""
    taken = list(alone) or [ALONE] * MIN_STEADY
    return {Phase.ALONE: taken, Phase.NO_QUOTA: [no_quota], Phase.QUOTA: [quota]}


GOOD = Evidence(
    advertised=ADVERTISED,
    told={"polite": ADVERTISED, "noisy": ADVERTISED},
    results={"polite": GOOD_RESULT, "noisy": GOOD_RESULT},
    samples=sampled(),
    sluice_exit_code=0,
)
ACKED, LOST = "every record acked", "nothing lost, order intact"
METADATA, EXIT = "clients know Sluice only", "Sluice exited cleanly"
WAITS = "without a quota the polite client waits"
AS_QUICK = "with the quota the polite client is as quick as alone"
HELD, TOLD = "the noisy client is held to its quota", "the noisy client is told to slow down"
UNSTEADY = (ALONE, ALONE._replace(p99_ms=90), ALONE, ALONE._replace(p99_ms=200))


def results(**polite: int) -> dict[str, object]:
    """Return a change of the polite client's result."""
    told = {"acked": 100, "failed": 0, **polite}
    return {"results": {"polite": ClientResult(**told), "noisy": GOOD_RESULT}}


def quota(*alone: Sample, **changed: float) -> dict[str, object]:
    """Return a change of the sample under the quota."""
    return {"samples": sampled(*alone, quota=LIMITED._replace(**changed))}


FAULTS: dict[str, tuple[dict[str, object], set[str]]] = {
    "no client has a result": ({"results": {}}, {ACKED, LOST}),
    "a client got no acknowledgement": (results(acked=0), {ACKED, LOST}),
    "a record was not acked": (results(failed=1), {ACKED}),
    "a record was acked and not read back": (results(lost=1), {LOST}),
    "two records came in the wrong order": (results(out_of_order=1), {LOST}),
    "a client was told a broker's address": (
        {"told": {"polite": ADVERTISED, "noisy": LEAKED}},
        {METADATA},
    ),
    "no client said what it was told": ({"told": {}}, {METADATA}),
    "the noisy client got 6 % more than its quota": (quota(noisy_per_s=53), {HELD}),
    "the noisy client got 12 % less than its quota": (quota(noisy_per_s=44), {HELD}),
    "the noisy client got more than its burst, on a busy machine": (
        quota(*UNSTEADY, noisy_per_s=151),
        {HELD},
    ),
    "the noisy client stood still, on a busy machine": (quota(*UNSTEADY, noisy_per_s=0), {HELD}),
    "no reply told the noisy client": (quota(throttled=0), {TOLD}),
    "the polite client's median is a quarter higher": (quota(p50_ms=8.8), {AS_QUICK}),
    "the polite client's 99th percentile is doubled": (quota(p99_ms=18.1), {AS_QUICK}),
    "Sluice was killed": ({"sluice_exit_code": -9}, {EXIT}),
}
UNJUDGED: dict[str, tuple[dict[str, object], set[str]]] = {
    "the machine serves both clients": ({"samples": sampled(no_quota=ALONE)}, {WAITS}),
    "alone its p99 varies": (quota(*UNSTEADY, p99_ms=300, noisy_per_s=70), {AS_QUICK, HELD}),
    "alone its p50 varies": (
        quota(ALONE, ALONE, *[ALONE._replace(p50_ms=9)] * 2, p99_ms=300),
        {AS_QUICK},
    ),
    "there was one round": (quota(ALONE, p99_ms=300), {AS_QUICK}),
}


def test_a_good_run_passes() -> None:
    """Every check holds, and the verdict says no more."""
    findings = judge(GOOD)

    assert all(finding.holds for finding in findings), findings
    assert len(findings) == 8
    assert summary(findings) == "Verdict: passed"


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_fails_its_own_check(fault: str) -> None:
    """One fault fails exactly the checks that look at it, and the verdict names them."""
    changes, failing = FAULTS[fault]
    findings = judge(replace(GOOD, **changes))

    assert {finding.name for finding in findings if finding.holds is False} == failing
    assert all(name in summary(findings) for name in failing)


@pytest.mark.parametrize("reason", UNJUDGED)
def test_what_the_machine_may_explain_is_not_judged(reason: str) -> None:
    """A bound of latency or rate that does not hold is then no failure."""
    changes, unjudged = UNJUDGED[reason]
    findings = judge(replace(GOOD, **changes))

    assert {finding.name for finding in findings if not finding.holds} == unjudged
    assert all(finding.holds is not False for finding in findings)
    assert summary(findings).startswith("Verdict: passed; not judged: ")


def test_without_phases_no_quota_is_judged() -> None:
    """With a usage log the clients' books are judged alone."""
    findings = judge(replace(GOOD, samples={phase: [] for phase in Phase}))

    assert {finding.name for finding in findings} == {ACKED, LOST, METADATA, EXIT}
