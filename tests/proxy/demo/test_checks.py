"""Checks: a good run passes each of them, and each fault fails its own check."""

from dataclasses import replace

import pytest

from proxy.demo.checks import Evidence, judge
from proxy.demo.experiment import Comparison
from tests.support.pages.demo_evidence import (
    ADVERTISED,
    ALONE,
    AS_ALONE,
    compared,
    findings,
    result,
)

BROKERS = {1: "127.0.0.1:41001", 2: "127.0.0.1:41002"}
LEAKED = {**ADVERTISED, 2: BROKERS[2]}
PORTS = {"noisy": {20000, 20002}, "reader-1": {20002, 20003}, "reader-2": {20003}}
GOOD = Evidence(
    brokers=BROKERS,
    advertised=ADVERTISED,
    bootstrap_port=20000,
    producers={"noisy": result(*range(100))},
    readers={"reader-1": result(*range(60)), "reader-2": result(*range(60, 100))},
    contestants={"polite": result(*range(10)), "flood": result(*range(10))},
    comparison=compared(),
    client_ports=PORTS,
    sluice_ports={41001, 41002},
    sluice_exit_code=0,
)
SLOWER = "without a quota the polite producer is slower"
ACKED, LOST, ORDER = "every record acked", "nothing lost", "order intact"
METADATA, SOCKETS = "metadata names only Sluice", "brokers reached only through Sluice"
HELD = "the noisy producer is held to its quota"
AS_FAST = "with a quota the polite producer is as fast as alone"
FAULTS: dict[str, tuple[dict[str, object], set[str]]] = {
    "a record was acked and never consumed": (
        {"readers": {"reader-1": result(*range(60)), "reader-2": result(*range(61, 100))}},
        {LOST},
    ),
    "no producer got an acknowledgement": ({"producers": {"noisy": result()}}, {ACKED, LOST}),
    "a record was not acked": ({"producers": {"noisy": result(*range(100), failed=1)}}, {ACKED}),
    "a reader saw two records in the wrong order": (
        {"readers": {"reader-1": result(1, 0, *range(2, 100))}},
        {ORDER},
    ),
    "a client was told a broker's address": (
        {"producers": {"noisy": result(*range(100), brokers=LEAKED)}},
        {METADATA},
    ),
    "a client connected to a broker": (
        {"client_ports": {**PORTS, "reader-2": {20003, 41002}}},
        {SOCKETS},
    ),
    "no client used the second broker's port": (
        {"client_ports": {"noisy": {20000, 20002}, "reader-1": {20002}, "reader-2": set()}},
        {SOCKETS},
    ),
    "Sluice was never connected to the second broker": ({"sluice_ports": {41001}}, {SOCKETS}),
    "a client was connected to a port that is not Sluice's": (
        {"client_ports": {**PORTS, "noisy": {20000, 20002, 9092}}},
        {SOCKETS},
    ),
    "a record of the second part was not acked": (
        {"contestants": {"polite": result(*range(10), failed=1)}},
        {ACKED},
    ),
    "a client of the second part was told a broker's address": (
        {"contestants": {"polite": result(*range(10), brokers=LEAKED)}},
        {METADATA},
    ),
    "the noisy producer got 6 % more than its quota": (
        {"comparison": compared(quota=AS_ALONE._replace(noisy_per_s=106))},
        {HELD},
    ),
    "the noisy producer got 11 % less than its quota": (
        {"comparison": compared(quota=AS_ALONE._replace(noisy_per_s=89))},
        {HELD},
    ),
    "the polite producer's median is 11 % higher than alone": (
        {"comparison": compared(quota=AS_ALONE._replace(p50_ms=7.8))},
        {AS_FAST},
    ),
    "the polite producer's 99th percentile is doubled": (
        {"comparison": compared(quota=AS_ALONE._replace(p99_ms=18.0))},
        {AS_FAST},
    ),
    "the polite producer was as fast without a quota": (
        {"comparison": compared(no_quota=ALONE._replace(noisy_per_s=18_000))},
        {SLOWER},
    ),
    "nothing was measured": ({"comparison": Comparison(limit_per_s=100)}, {"quotas compared"}),
    "Sluice was killed": ({"sluice_exit_code": -9}, {"Sluice exited cleanly"}),
}


def test_a_good_run_passes() -> None:
    """Every check holds when every record came through and every socket ends at Sluice."""
    assert all(check.holds for check in judge(GOOD)), judge(GOOD)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_fails_its_own_check(fault: str) -> None:
    """One fault fails exactly the checks that look at it."""
    changes, failing = FAULTS[fault]

    assert {check.name for check in judge(replace(GOOD, **changes)) if not check.holds} == failing


def test_unobserved_sockets_are_reported() -> None:
    """Without /proc the check of the sockets says that they were not observed."""
    told = findings(replace(GOOD, sockets_seen=False, client_ports={}))

    assert "not observed" in told[SOCKETS].detail


def test_without_an_experiment_no_quota_is_judged() -> None:
    """The first part alone has no finding about quotas."""
    assert not any("quota" in name for name in findings(replace(GOOD, comparison=None)))


def test_a_machine_that_serves_both_producers_fails_nothing() -> None:
    """Without a quota the polite producer was as fast as alone: that is said, and not judged."""
    changes, _ = FAULTS["the polite producer was as fast without a quota"]
    told = findings(replace(GOOD, **changes))

    assert told[SLOWER].holds is None
    assert not any(finding.holds is False for finding in told.values())
