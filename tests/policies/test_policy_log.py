"""The log of a policy never fails it, and keeps few lines before there is a proxy."""

from policies.policy_log import MAX_EARLY
from policies.testing import BenchHost


def test_lines_of_a_policy_that_never_serves_are_bounded() -> None:
    """A constructor that logs in a loop keeps MAX_EARLY lines."""
    host, seen = BenchHost(), []
    for number in range(MAX_EARLY + 100):
        host.log.debug("line", number=number)
    host.log.connect(lambda *line: seen.append(line))
    assert len(seen) == MAX_EARLY


def test_a_log_that_fails_does_not_fail_the_policy() -> None:
    """An exception of the writer is not the policy's."""

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    host = BenchHost()
    host.log.connect(fail)
    host.log.error("line")
