"""Checks: a good run passes each of them, and each fault fails its own check."""

from collections.abc import Callable

import msgspec
import pytest

from proxy.demo.checks import Evidence, Finding, judge
from proxy.demo.experiment import Comparison, Condition, Sample
from proxy.demo.processes import ClientResult

ADVERTISED = {1: "127.0.0.1:20002", 2: "127.0.0.1:20003"}


def result(first: int, last: int) -> ClientResult:
    """Return a client's result: the records of one producer with these numbers."""
    return of(list(range(first, last + 1)))


def of(numbers: list[int], stream: str = "noisy/0") -> ClientResult:
    """Return a client's result: these records in this order."""
    return ClientResult(len(numbers), 0, ADVERTISED, {stream: numbers})


ALONE = Sample(200, 7.0, 9.0, 0)
SLOWED = Sample(198, 34.0, 64.0, 18_000)
AS_ALONE = Sample(200, 7.6, 17.0, 100)


def compared(
    alone: Sample = ALONE, no_quota: Sample = SLOWED, quota: Sample = AS_ALONE
) -> Comparison:
    """Return a comparison of three equal rounds."""
    comparison = Comparison(limit_per_s=100)
    for _ in range(3):
        for condition, taken in zip(Condition, (alone, no_quota, quota), strict=True):
            comparison.add(condition, taken)
    return comparison


def good() -> Evidence:
    """Return the evidence of a run in which everything holds."""
    return Evidence(
        brokers={1: "127.0.0.1:41001", 2: "127.0.0.1:41002"},
        advertised=ADVERTISED,
        bootstrap_port=20000,
        producers={"noisy": result(0, 99)},
        readers={"reader-1": result(0, 59), "reader-2": result(60, 99)},
        contestants={"polite": result(0, 9), "flood": result(0, 9)},
        comparison=compared(),
        client_ports={"noisy": {20000, 20002}, "reader-1": {20002, 20003}, "reader-2": {20003}},
        sluice_ports={41001, 41002},
        sluice_exit_code=0,
    )


def findings(seen: Evidence) -> dict[str, Finding]:
    """Return the findings by their names."""
    return {finding.name: finding for finding in judge(seen)}


def test_a_good_run_passes() -> None:
    """Every check holds when every record came through and every socket ends at Sluice."""
    assert all(check.holds for check in judge(good())), judge(good())


def lose_one(seen: Evidence) -> None:
    """Record 60 was acked and never consumed."""
    seen.readers = {"reader-1": result(0, 59), "reader-2": result(61, 99)}


def send_nothing(seen: Evidence) -> None:
    """No producer got an acknowledgement."""
    seen.producers = {"noisy": msgspec.structs.replace(result(0, 0), count=0, numbers={})}


def refuse_one(seen: Evidence) -> None:
    """One record was not acked."""
    seen.producers = {"noisy": msgspec.structs.replace(result(0, 99), failed=1)}


def swap_two(seen: Evidence) -> None:
    """A reader saw two records in the wrong order."""
    seen.readers = {"reader-1": of([1, 0, *range(2, 100)])}


def leak_an_address(seen: Evidence) -> None:
    """A client was told a real broker's address."""
    leaked = {**ADVERTISED, 2: seen.brokers[2]}
    seen.producers = {"noisy": msgspec.structs.replace(result(0, 99), brokers=leaked)}


def bypass(seen: Evidence) -> None:
    """A client connected to a broker."""
    seen.client_ports["reader-2"].add(41002)


def forget_a_broker(seen: Evidence) -> None:
    """No client used the second broker's port."""
    seen.client_ports["reader-1"].discard(20003)
    seen.client_ports["reader-2"].discard(20003)


def sluice_answers_itself(seen: Evidence) -> None:
    """Sluice was never connected to the second broker."""
    seen.sluice_ports = {41001}


def go_elsewhere(seen: Evidence) -> None:
    """A client was connected to a port that is not Sluice's."""
    seen.client_ports["noisy"].add(9092)


def refuse_a_contestant(seen: Evidence) -> None:
    """A record of the second part was not acked."""
    seen.contestants = {"polite": msgspec.structs.replace(result(0, 9), failed=1)}


def leak_to_a_contestant(seen: Evidence) -> None:
    """A client of the second part was told a real broker's address."""
    leaked = {**ADVERTISED, 2: seen.brokers[2]}
    seen.contestants = {"polite": msgspec.structs.replace(result(0, 9), brokers=leaked)}


def exceed(seen: Evidence) -> None:
    """The noisy producer got 6 % more than its quota."""
    seen.comparison = compared(quota=AS_ALONE._replace(noisy_per_s=106))


def fall_short(seen: Evidence) -> None:
    """The noisy producer got 11 % less than its quota."""
    seen.comparison = compared(quota=AS_ALONE._replace(noisy_per_s=89))


def slow_the_polite(seen: Evidence) -> None:
    """The polite producer's median is 11 % higher than alone."""
    seen.comparison = compared(quota=AS_ALONE._replace(p50_ms=7.8))


def stall_the_polite(seen: Evidence) -> None:
    """The polite producer's median is the same, its 99th percentile is doubled."""
    seen.comparison = compared(quota=AS_ALONE._replace(p99_ms=18.0))


def show_nothing(seen: Evidence) -> None:
    """The polite producer was as fast without a quota."""
    seen.comparison = compared(no_quota=ALONE._replace(noisy_per_s=18_000))


def measure_nothing(seen: Evidence) -> None:
    """Nothing was measured."""
    seen.comparison = Comparison(limit_per_s=100)


def die(seen: Evidence) -> None:
    """Sluice was killed."""
    seen.sluice_exit_code = -9


@pytest.mark.parametrize(
    ("spoil", "failing"),
    [
        (lose_one, {"nothing lost"}),
        (send_nothing, {"every record acked", "nothing lost"}),
        (refuse_one, {"every record acked"}),
        (swap_two, {"order intact"}),
        (leak_an_address, {"metadata names only Sluice"}),
        (bypass, {"brokers reached only through Sluice"}),
        (forget_a_broker, {"brokers reached only through Sluice"}),
        (sluice_answers_itself, {"brokers reached only through Sluice"}),
        (go_elsewhere, {"brokers reached only through Sluice"}),
        (refuse_a_contestant, {"every record acked"}),
        (leak_to_a_contestant, {"metadata names only Sluice"}),
        (exceed, {"the noisy producer is held to its quota"}),
        (fall_short, {"the noisy producer is held to its quota"}),
        (slow_the_polite, {"with a quota the polite producer is as fast as alone"}),
        (stall_the_polite, {"with a quota the polite producer is as fast as alone"}),
        (show_nothing, {"without a quota the polite producer is slower"}),
        (measure_nothing, {"quotas compared"}),
        (die, {"Sluice exited cleanly"}),
    ],
)
def test_each_fault_fails_its_own_check(
    spoil: Callable[[Evidence], None], failing: set[str]
) -> None:
    """One fault fails exactly the checks that look at it."""
    seen = good()
    spoil(seen)

    assert {check.name for check in judge(seen) if not check.holds} == failing


def test_unobserved_sockets_are_reported() -> None:
    """Without /proc the check of the sockets says that they were not observed."""
    seen = good()
    seen.sockets_seen = False
    seen.client_ports = {}

    told = findings(seen)

    assert "not observed" in told["brokers reached only through Sluice"].detail


def test_without_an_experiment_no_quota_is_judged() -> None:
    """The first part alone has no finding about quotas."""
    seen = good()
    seen.comparison = None

    assert not any("quota" in check.name for check in judge(seen))


def test_a_machine_that_serves_both_producers_fails_nothing() -> None:
    """Without a quota the polite producer was as fast as alone: that is said, and not judged."""
    seen = good()
    show_nothing(seen)

    found = {check.name: check.holds for check in judge(seen)}
    assert found["without a quota the polite producer is slower"] is None
    assert False not in found.values()
