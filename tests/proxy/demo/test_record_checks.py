"""Checks of the records: losses, swaps and repeats are told apart, by an oracle of plain sets and lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.checks import Evidence, Finding
from proxy.demo.processes import ClientResult
from tests.support.pages.demo_evidence import findings, result

NUMBERS = st.lists(st.integers(0, 30), max_size=60)
Results = dict[str, ClientResult]


def told_of(producers: Results, readers: Results) -> dict[str, Finding]:
    """Return the findings about these results, by their names."""
    return findings(Evidence({}, {}, 0, producers, readers))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_lost_and_repeated_records_are_counted(
    acked: list[int], left: list[int], right: list[int]
) -> None:
    """A record that both readers lack is lost; one that a reader has twice is mentioned and no fault."""
    readers = {"reader-1": result(*left), "reader-2": result(*right)}

    finding = told_of({"noisy": result(*acked)}, readers)["nothing lost"]

    lost = len(set(acked) - set(left) - set(right))
    twice = len(left) - len(set(left)) + len(right) - len(set(right))
    assert finding.holds is (not lost and bool(acked))
    if lost:
        assert finding.detail == f"acked but never consumed: noisy/0: {lost}"
    elif acked:
        told = f"{len(set(left) | set(right))} consumed of {len(set(acked))} acked"
        assert finding.detail == told + (f", {twice} twice" if twice else "")


@given(NUMBERS)
def test_a_reader_may_repeat_but_not_swap(numbers: list[int]) -> None:
    """Order holds when each number seen for the first time is larger than all before it."""
    first = [n for place, n in enumerate(numbers) if n not in numbers[:place]]

    holds = told_of({}, {"reader-1": result(*numbers)})["order intact"].holds

    assert holds is all(n > max(first[:place], default=-1) for place, n in enumerate(first))


@pytest.mark.parametrize("stream", ["other/0", "noisy/1"])
def test_streams_are_compared_one_by_one(stream: str) -> None:
    """The same number of another producer or partition does not replace a lost one."""
    acked, consumed = result(*range(100)), result(*range(100), stream=stream)

    lost = told_of({"noisy": acked}, {"reader-1": consumed})["nothing lost"]

    assert lost.detail == "acked but never consumed: noisy/0: 100"
