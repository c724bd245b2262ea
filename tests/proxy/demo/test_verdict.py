"""Verdict: a good run passes every check, and each way of going wrong fails its own check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.demo.messages import Final
from proxy.demo.verdict import Evidence, judge

if TYPE_CHECKING:
    from collections.abc import Callable

ADVERTISED = {1: "127.0.0.1:20002", 2: "127.0.0.1:20003"}


def final(first: int, last: int) -> Final:
    """Return a client's last word: one run of one producer's records."""
    return Final([("noisy", 0, [(first, last)])], 0, 0, 0, ADVERTISED)


def good() -> Evidence:
    """Return the evidence of a run in which everything holds."""
    return Evidence(
        brokers={1: "127.0.0.1:41001", 2: "127.0.0.1:41002"},
        advertised=ADVERTISED,
        bootstrap_port=20000,
        producers={"noisy": final(0, 99)},
        readers={"reader-1": final(0, 59), "reader-2": final(60, 99)},
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
