"""A memory limit of the bench's own."""

import subprocess
import sys

import pytest

from bench.memory.cgroup import NoCgroupError, memory_cgroup

LIMIT = 64 << 20
GREEDY = "held = bytearray(b'x') * (256 << 20); print('alive')"
MODEST = "held = bytearray(b'x') * (8 << 20); print('alive')"


def test_a_process_over_the_limit_is_killed_and_counted() -> None:
    """A smaller one lives; afterwards the group is removed."""
    try:
        with memory_cgroup(LIMIT) as group:
            modest, greedy = (
                subprocess.run(
                    [*group.entering(), sys.executable, "-c", code],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                for code in (MODEST, GREEDY)
            )
            assert modest.stdout == "alive\n"
            assert greedy.returncode == -9
            assert "alive" not in greedy.stdout
            assert group.kills() == 1
            assert 8 << 20 < group.peak_bytes() <= LIMIT
            assert group.folder.is_dir()
    except NoCgroupError as error:
        pytest.skip(f"no memory cgroup here: {error}")
    assert not group.folder.exists()
