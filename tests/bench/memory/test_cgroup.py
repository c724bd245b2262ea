"""A memory limit of the bench's own."""

import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_is_written_to_the_file_of_the_version(tmp_path: Path, version: int) -> None:
    """Version 1 or 2, as it is mounted; the group is removed at the end of the block."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "cgroup.controllers").write_text("cpu memory")
    kind, options = ("cgroup", "rw,memory") if version == 1 else ("cgroup2", "rw")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"x {top} {kind} {options} 0 0\n")
    with memory_cgroup(LIMIT, mounts) as group:
        name = "memory.limit_in_bytes" if version == 1 else "memory.max"
        assert (group.folder / name).read_text() == str(LIMIT)
        assert group.version == version
        assert f"{group.folder}/cgroup.procs" in group.entering()[2]
        for file in group.folder.iterdir():  # a real group's files are removed with their folder
            file.unlink()

    assert not group.folder.exists()
