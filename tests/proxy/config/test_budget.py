"""The memory budget: what fits, what is derived, and refusals with their figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.budget import (
    BASE_BYTES,
    DEFAULT_POOL_BYTES,
    DERIVED_CONNECTIONS,
    LOGIN_BYTES,
    MIB,
    NO_BOUND,
    OVER_BYTES,
    REPLY_RESERVE_BYTES,
    RESIDUE_BYTES,
    USABLE_PART,
    Demand,
    settle,
)
from proxy.core.memory.reply_reservations import RESERVE_BYTES
from proxy.core.memory.unauthenticated import MAX_BYTES


def test_without_a_memory_limit_the_pools_have_a_fixed_size():
    """They hold at least the largest request that a policy wants whole."""
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
def test_derived_sizes_fit_the_limit_or_are_refused(limit, wanted, more, connections):
    """The sum of all terms stays within the usable part of the limit, or a problem is reported."""
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
        + OVER_BYTES
        + RESIDUE_BYTES * (connections or DERIVED_CONNECTIONS)
    )
    problems = list(budget.problems())
    if least <= limit * USABLE_PART - 2 * MIB:
        assert problems == []
    if not problems:
        assert budget.max_bytes <= limit * USABLE_PART
        assert budget.request_bytes >= wanted


def test_the_budget_is_the_sum_of_its_terms():
    """The terms are the pools, a frame over the pool, its copy, the connections and the process."""
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
    assert budget.max_bytes == 30 * MIB + 9 * MIB + OVER_BYTES + rest_bytes
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


def test_an_assumed_number_of_connections_is_reported_as_assumed():
    """`max_connections: 0` means as many as the descriptor limit allows."""
    text = "\n".join(settle(Demand(limit_bytes=256 * MIB, limit_origin="memory.max")).lines())
    assert "1000 connections of 32 KiB, assumed (limits.max_connections is 0)" in text
    assert "85% of the limit of 256.0 MiB, 217.6 MiB, may be used (memory.max)" in text


@pytest.mark.parametrize(("tls_sides", "kib"), [(1, 128), (2, 224)])
def test_each_side_with_tls_costs_memory_and_fewer_connections_are_assumed(tls_sides, kib):
    """OpenSSL's buffers count for each; the smallest usual container still has room for the pools."""
    budget = settle(Demand(tls_sides=tls_sides, limit_bytes=128 * MIB, limit_origin="memory.max"))
    assert f"200 connections of {kib} KiB, assumed" in "\n".join(budget.lines())
    assert budget.residue_bytes == 200 * kib << 10
    assert not list(budget.problems())


def test_a_budget_over_the_limit_is_refused_with_its_figures():
    """The message has each term, the limit and the limit's source."""
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
    """The message names the policy; a pool of exactly that size is enough, as in Kafka."""
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


def test_without_a_bound_no_budget_is_checked():
    """The user has switched the bound off."""
    budget = settle(Demand(request_bytes=NO_BOUND, limit_bytes=64 * MIB, whole_bytes=MIB))
    assert budget.max_bytes is None
    assert list(budget.problems()) == []
    assert "unbounded  in all" in "\n".join(budget.lines())


def test_the_budget_uses_the_allowances_of_the_core():
    """Replies that are kept whole, and logins, may exceed their pools by the allowances in the budget."""
    assert REPLY_RESERVE_BYTES == RESERVE_BYTES
    assert LOGIN_BYTES == MAX_BYTES
