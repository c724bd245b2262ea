"""Case e: the memory budget that Sluice prints, and the case without a cgroup."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.memory import container
from bench.memory.cgroup import NoCgroupError


def test_the_memory_budget_is_read() -> None:
    """The sum is read, not one of its parts; an output without one gives no bound."""
    said = (
        "Memory, at most:\n     54.0 MiB  requests (x)\n    216.3 MiB  in all; 85% of the limit\n"
    )
    assert container.checked_mib(said) == 216.3
    assert container.checked_mib("The settings are valid; policies: 0.\n") == math.inf


def test_without_a_cgroup_the_case_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason stands in the table, and no goal is met."""

    @contextmanager
    def refuse(limit_bytes: int) -> Iterator[None]:
        raise NoCgroupError("not here")
        yield

    monkeypatch.setattr(container, "memory_cgroup", refuse)
    case = container.measure(None, tmp_path)
    assert case.left_out == {"the whole case": "not here"}
    assert not case.goals
