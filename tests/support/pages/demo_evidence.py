"""Made-up evidence of a run of the demo, and the findings about it."""

from proxy.demo.checks import Evidence, Finding, judge
from proxy.demo.experiment import Comparison, Condition, Sample
from proxy.demo.processes import ClientResult

ADVERTISED = {1: "127.0.0.1:20002", 2: "127.0.0.1:20003"}
ALONE = Sample(200, 7.0, 9.0, 0)
SLOWED = Sample(198, 34.0, 64.0, 18_000)
AS_ALONE = Sample(200, 7.6, 17.0, 100)


def result(*numbers: int, stream: str = "noisy/0", **changed: object) -> ClientResult:
    """Return a client's result: the records of a stream with these numbers, in this order."""
    told = {"count": len(numbers), "failed": 0, "brokers": ADVERTISED, **changed}
    return ClientResult(numbers={stream: list(numbers)}, **told)


def compared(
    alone: Sample = ALONE,
    no_quota: Sample = SLOWED,
    quota: Sample = AS_ALONE,
    others: float | None = None,
    rounds: int = 3,
) -> Comparison:
    """Return a comparison of equal rounds; `others` is the share of the machine that other programs use."""
    comparison = Comparison(limit_per_s=100)
    for _ in range(rounds):
        for condition, taken in zip(Condition, (alone, no_quota, quota), strict=True):
            comparison.add(condition, taken, others)
    return comparison


def findings(evidence: Evidence) -> dict[str, Finding]:
    """Return the findings by their names."""
    return {finding.name: finding for finding in judge(evidence)}
