"""Case e: the memory budget that Sluice prints, and the case without a cgroup."""

import math

from bench.memory import container


def test_the_memory_budget_is_read() -> None:
    """The sum is read, not one of its parts; an output without one gives no bound."""
    said = (
        "Memory, at most:\n     54.0 MiB  requests (x)\n    216.3 MiB  in all; 85% of the limit\n"
    )
    assert container.checked_mib(said) == 216.3
    assert container.checked_mib("The settings are valid; policies: 0.\n") == math.inf
