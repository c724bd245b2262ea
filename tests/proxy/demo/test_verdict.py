"""Verdict: a good run passes every check, and each way of going wrong fails its own check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.demo.comparison import Arm, Comparison, Sample
from proxy.demo.messages import Final
from proxy.demo.verdict import Evidence, judge

if TYPE_CHECKING:
    from collections.abc import Callable

ADVERTISED = {1: "127.0.0.1:20002", 2: "127.0.0.1:20003"}


def final(first: int, last: int) -> Final:
    """Return a client's last word: one run of one producer's records."""
    return Final([("noisy", 0, [(first, last)])], 0, 0, 0, ADVERTISED)


ALONE = Sample(200, 7.0, 9.0, 0)
SUFFERING = Sample(198, 34.0, 64.0, 18_000)
UNTOUCHED = Sample(200, 7.6, 17.0, 100)


def compared(
    alone: Sample = ALONE, without: Sample = SUFFERING, held: Sample = UNTOUCHED
) -> Comparison:
    """Return a comparison of three rounds that are alike."""
    comparison = Comparison(limit_per_s=100)
    for _ in range(3):
        for arm, taken in zip(Arm, (alone, without, held), strict=True):
            comparison.add(arm, taken)
    return comparison


def good() -> Evidence:
    """Return the evidence of a run in which everything holds."""
    return Evidence(
        brokers={1: "127.0.0.1:41001", 2: "127.0.0.1:41002"},
        advertised=ADVERTISED,
        bootstrap_port=20000,
        producers={"noisy": final(0, 99)},
        readers={"reader-1": final(0, 59), "reader-2": final(60, 99)},
        contestants={"polite": final(0, 9), "flood": final(0, 9)},
        comparison=compared(),
        client_ports={"noisy": {20000, 20002}, "reader-1": {20002, 20003}, "reader-2": {20003}},
        sluice_ports={41001, 41002},
        sluice_exit_code=0,
    )


def test_a_good_run_passes() -> None:
    """Every check holds when every record came through and every socket ends at Sluice."""
    assert all(check.holds for check in judge(good())), judge(good())


def lose_one(seen: Evidence) -> None:
    """Record 60 was acked and never consumed."""
    seen.readers = {"reader-1": final(0, 59), "reader-2": final(61, 99)}


def send_nothing(seen: Evidence) -> None:
    """No producer got a record through."""
    seen.producers = {"noisy": msgspec.structs.replace(final(0, 0), runs=[])}


def refuse_one(seen: Evidence) -> None:
    """One record was not acked."""
    seen.producers = {"noisy": msgspec.structs.replace(final(0, 99), failed=1)}


def swap_two(seen: Evidence) -> None:
    """A reader saw two records in the wrong order."""
    seen.readers = {"reader-1": msgspec.structs.replace(final(0, 99), out_of_order=1)}


def leak_an_address(seen: Evidence) -> None:
    """A client was told a real broker's address."""
    leaked = {**ADVERTISED, 2: seen.brokers[2]}
    seen.producers = {"noisy": msgspec.structs.replace(final(0, 99), brokers=leaked)}


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
    seen.contestants = {"polite": msgspec.structs.replace(final(0, 9), failed=1)}


def leak_to_a_contestant(seen: Evidence) -> None:
    """A client of the second part was told a real broker's address."""
    leaked = {**ADVERTISED, 2: seen.brokers[2]}
    seen.contestants = {"polite": msgspec.structs.replace(final(0, 9), brokers=leaked)}


def exceed(seen: Evidence) -> None:
    """The noisy one got 6 % more than its quota."""
    seen.comparison = compared(held=UNTOUCHED._replace(noisy_per_s=106))


def fall_short(seen: Evidence) -> None:
    """The noisy one got 11 % less than its quota."""
    seen.comparison = compared(held=UNTOUCHED._replace(noisy_per_s=89))


def slow_the_polite(seen: Evidence) -> None:
    """The polite one's median is 11 % higher than alone."""
    seen.comparison = compared(held=UNTOUCHED._replace(p50_ms=7.8))


def stall_the_polite(seen: Evidence) -> None:
    """The polite one's median is the same, its 99th percentile is doubled."""
    seen.comparison = compared(held=UNTOUCHED._replace(p99_ms=18.0))


def show_nothing(seen: Evidence) -> None:
    """The polite one did not suffer in the first place."""
    seen.comparison = compared(without=ALONE._replace(noisy_per_s=18_000))


def forget_an_arm(seen: Evidence) -> None:
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
        (exceed, {"the noisy one is held to its quota"}),
        (fall_short, {"the noisy one is held to its quota"}),
        (slow_the_polite, {"with it the polite one is untouched"}),
        (stall_the_polite, {"with it the polite one is untouched"}),
        (show_nothing, {"without a quota the polite one suffers"}),
        (forget_an_arm, {"quotas compared"}),
        (die, {"Sluice ended well"}),
    ],
)
def test_each_fault_fails_its_own_check(
    spoil: Callable[[Evidence], None], failing: set[str]
) -> None:
    """One thing gone wrong fails exactly the checks that look at it."""
    seen = good()
    spoil(seen)

    assert {check.name for check in judge(seen) if not check.holds} == failing


def test_unseen_sockets_are_said() -> None:
    """Without /proc the check on sockets says that it did not look."""
    seen = good()
    seen.sockets_seen = False
    seen.client_ports = {}

    told = {check.name: check.detail for check in judge(seen)}

    assert "not observed" in told["brokers reached only through Sluice"]


@pytest.mark.parametrize("held", [UNTOUCHED, UNTOUCHED._replace(p50_ms=70)], ids=["good", "bad"])
def test_a_busy_machine_judges_no_latency(held: Sample) -> None:
    """When the polite one alone differs by more than a fifth, its latencies are told, not judged."""
    seen = good()
    seen.comparison = Comparison(limit_per_s=100)
    for p50_ms in (7.0, 9.0, 12.0, 8.0, 15.0):
        seen.comparison.add(Arm.ALONE, ALONE._replace(p50_ms=p50_ms))
        seen.comparison.add(Arm.WITHOUT, SUFFERING)
        seen.comparison.add(Arm.WITH, held)

    told = {check.name: check for check in judge(seen)}

    for name in ("without a quota the polite one suffers", "with it the polite one is untouched"):
        assert told[name].holds is None
        assert "too busy" in told[name].detail
    assert told["the noisy one is held to its quota"].holds


def test_what_others_may_have_done_is_not_held_against_sluice() -> None:
    """On a machine that others use, a bound that holds has held; one that does not is not judged."""
    seen = good()
    seen.comparison = Comparison(limit_per_s=100)
    for _ in range(5):
        seen.comparison.add(Arm.ALONE, ALONE, 0.4)
        seen.comparison.add(Arm.WITHOUT, SUFFERING, 0.4)
        seen.comparison.add(Arm.WITH, UNTOUCHED._replace(p50_ms=8.0), 0.4)

    told = {check.name: check for check in judge(seen)}

    assert told["without a quota the polite one suffers"].holds
    assert told["with it the polite one is untouched"].holds is None
    assert "took 40% of" in told["with it the polite one is untouched"].detail


@pytest.mark.parametrize(
    ("noisy_per_s", "others", "verdict"),
    [
        (150.0, 0.4, None),
        (60.0, 0.4, None),
        (150.0, 0.0, False),
        (60.0, 0.0, False),
        (301.0, 0.4, False),
        (0.0, 0.4, False),
        (100.0, 0.4, True),
    ],
)
def test_a_rate_that_the_quotas_burst_allows_is_not_judged_on_a_busy_machine(
    *, noisy_per_s: float, others: float, verdict: bool | None
) -> None:
    """A client that stood still may catch up, by the burst and no further; on a quiet machine it may not."""
    seen = good()
    seen.comparison = Comparison(limit_per_s=100)
    for _ in range(5):
        seen.comparison.add(Arm.ALONE, ALONE, others)
        seen.comparison.add(Arm.WITHOUT, SUFFERING, others)
        seen.comparison.add(Arm.WITH, UNTOUCHED._replace(noisy_per_s=noisy_per_s), others)

    told = {check.name: check for check in judge(seen)}

    assert told["the noisy one is held to its quota"].holds is verdict


def test_a_play_of_the_first_part_alone_is_judged_by_it() -> None:
    """Nothing is said of quotas when that part was not played."""
    seen = good()
    seen.comparison = None

    assert not any("quota" in check.name for check in judge(seen))
