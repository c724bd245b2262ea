"""The arithmetic of memory: what fits, what is derived, and what is refused with its numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.config.budget import (
    BASE_BYTES,
    DEFAULT_POOL_BYTES,
    DERIVED_CONNECTIONS,
    KEPT_REPLY_BYTES,
    MIB,
    NO_BOUND,
    RESIDUE_BYTES,
    USABLE_PART,
    Demand,
    settle,
)
from proxy.core.memory.reply_reservations import OWN_BYTES


def test_without_a_limit_the_pools_have_a_fixed_size():
    """And at least the largest request that a policy wants whole."""
    budget = settle(Demand())
    assert budget.request_bytes == budget.response_bytes == DEFAULT_POOL_BYTES
    assert budget.usable_bytes is None
    assert list(budget.problems()) == []
    wanting = settle(Demand(whole_bytes=200 * MIB, wanted_bytes=200 * MIB, wanted_by="x"))
    assert wanting.request_bytes == 200 * MIB
    assert list(wanting.problems()) == []


@given(
    st.integers(64 * MIB, 1 << 40),
    st.integers(0, 100 * MIB),
    st.integers(0, 100 * MIB),
    st.integers(0, 10_000),
)
def test_what_is_derived_fits_wherever_anything_fits(limit, wanted, more, connections):
    """The sum of all terms stays within the usable part, or the problem is told."""
    demand = Demand(
        whole_bytes=wanted + more,
        wanted_bytes=wanted,
        wanted_by="x",
        connections=connections,
        limit_bytes=limit,
        limit_origin="here",
    )
    budget = settle(demand)
    least = (
        2 * MIB
        + max(wanted, MIB)
        + 2 * wanted
        + more
        + BASE_BYTES
        + KEPT_REPLY_BYTES
        + RESIDUE_BYTES * (connections or DERIVED_CONNECTIONS)
    )
    problems = list(budget.problems())
    if least <= limit * USABLE_PART - 2 * MIB:
        assert problems == []
    if not problems:
        assert budget.max_bytes <= limit * USABLE_PART
        assert budget.request_bytes >= wanted


def test_the_sum_is_all_that_is_counted():
    """Pools, a frame over the pool and the copy that is looked at, connections, the process."""
    budget = settle(
        Demand(
            request_bytes=10 * MIB,
            response_bytes=20 * MIB,
            whole_bytes=5 * MIB,
            wanted_bytes=4 * MIB,
            connections=32,
        )
    )
    rest_bytes = 32 * RESIDUE_BYTES + BASE_BYTES
    assert budget.max_bytes == 30 * MIB + 9 * MIB + KEPT_REPLY_BYTES + rest_bytes
    text = "\n".join(budget.lines())
    for words in (
        "10.0 MiB  requests",
        "20.0 MiB  replies",
        "9.0 MiB  the largest",
        "8.0 MiB  replies kept whole",
        "1.0 MiB  32 c",
    ):
        assert words in text
    assert "no memory limit is set" in text
    assert "assumed" not in text


def test_what_is_not_told_is_said_to_be_assumed():
    """`max_connections: 0` is as many as there are descriptors."""
    text = "\n".join(settle(Demand(limit_bytes=256 * MIB, limit_origin="memory.max")).lines())
    assert "1000 connections of 32 KiB, assumed (limits.max_connections is 0)" in text
    assert "85% of the limit of 256.0 MiB, 217.6 MiB, may be used (memory.max)" in text


def test_what_cannot_fit_is_refused_with_its_numbers():
    """Each term, the limit and who says so."""
    demand = Demand(
        request_bytes=200 * MIB, connections=10, limit_bytes=128 * MIB, limit_origin="memory.max"
    )
    (problem,) = settle(demand).problems()
    assert problem.path == "memory"
    assert "200.0 MiB requests + 1.0 MiB replies" in problem.found
    assert "for 10 connections" in problem.found
    assert f"at most {int(128 * MIB * USABLE_PART)} bytes" in problem.expected
    assert "(memory.max)" in problem.expected


def test_a_pool_smaller_than_what_a_policy_wants_whole_is_refused():
    """With the policy's name; one that holds just that is enough (Kafka's rule for equal sizes)."""
    demand = Demand(
        request_bytes=5 * MIB, whole_bytes=6 * MIB, wanted_bytes=6 * MIB, wanted_by="scan"
    )
    (problem,) = settle(demand).problems()
    assert problem.path == "memory.queued_max_request_bytes"
    assert problem.found == str(5 * MIB)
    assert f"at least {6 * MIB}" in problem.expected
    assert "'scan'" in problem.expected
    equal = Demand(request_bytes=6 * MIB, whole_bytes=6 * MIB, wanted_bytes=6 * MIB)
    assert list(settle(equal).problems()) == []


def test_without_bound_nothing_is_promised_and_nothing_refused():
    """The user has said so."""
    budget = settle(Demand(request_bytes=NO_BOUND, limit_bytes=64 * MIB, whole_bytes=MIB))
    assert budget.max_bytes is None
    assert list(budget.problems()) == []
    assert "unbounded  in all" in "\n".join(budget.lines())


def test_the_budget_reckons_with_what_the_core_grants():
    """Replies that are kept whole have as much beyond their pool as is planned for them."""
    assert KEPT_REPLY_BYTES == OWN_BYTES
