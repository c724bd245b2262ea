"""The container's memory limit, read from made-up trees of files."""

from pathlib import Path

import pytest

from proxy.config.container import VARIABLE, memory_limit

MIB = 1 << 20
HOST = 8192 * MIB
UNLIMITED_V1 = 9223372036854771712


def tree(tmp_path: Path, cgroup: str, files: dict[str, object], host: int | None = HOST):
    """Write /proc and /sys/fs/cgroup as a kernel would show them, and read the limit."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(cgroup)
    if host is not None:
        (proc / "meminfo").write_text(f"MemTotal:       {host // 1024} kB\nMemFree: 1 kB\n")
    for name, value in files.items():
        file = groups / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return lambda **environ: memory_limit(environ, proc, groups)


@pytest.mark.parametrize(
    ("cgroup", "files", "limit", "origin"),
    [
        ("0::/\n", {"memory.max": 256 * MIB}, 256 * MIB, "memory.max"),
        ("0::/\n", {"memory.max": "max"}, None, ""),
        (
            "0::/pods/a/b\n",
            {"pods/a/b/memory.max": "max", "pods/a/memory.max": 300 * MIB, "pods/memory.max": HOST},
            300 * MIB,
            "pods/a/memory.max",
        ),
        (
            "0::/../../other\n",
            {"memory.max": 128 * MIB},
            128 * MIB,
            "memory.max",
        ),
        (
            "4:memory:/docker/x\n1:cpu:/\n0::/\n",
            {"memory/docker/x/memory.limit_in_bytes": 512 * MIB},
            512 * MIB,
            "memory/docker/x/memory.limit_in_bytes",
        ),
        (
            "4:cpu,memory:/gone\n",
            {"memory/memory.limit_in_bytes": 64 * MIB},
            64 * MIB,
            "memory/memory.limit_in_bytes",
        ),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": UNLIMITED_V1}, None, ""),
        ("0::/x\n", {"unified/x/memory.max": 99 * MIB}, 99 * MIB, "unified/x/memory.max"),
        ("nonsense\n\n", {"memory.max": 1}, None, ""),
        ("", {}, None, ""),
    ],
)
def test_the_smallest_limit_on_the_way_to_the_root_is_used(tmp_path, cgroup, files, limit, origin):
    """In both cgroup versions, also in a namespace; a limit above the machine's memory is no limit."""
    found = tree(tmp_path, cgroup, files)()
    if limit is None:
        assert found is None
    else:
        assert found is not None
        assert found.limit_bytes == limit
        assert found.origin.endswith(origin)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (str(100 * MIB), 100 * MIB),
        (str(300 * MIB), 200 * MIB),  # the cgroup's is smaller
        (str(HOST - MIB), 200 * MIB),  # the node's memory, which means no limit
        ("lots", 200 * MIB),
        ("0", 200 * MIB),
        ("", 200 * MIB),
    ],
)
def test_a_variable_set_by_kubernetes_is_a_limit_too(tmp_path, text, limit):
    """The smallest of all limits is used."""
    read = tree(tmp_path, "0::/\n", {"memory.max": 200 * MIB})
    found = read(**{VARIABLE: text})
    assert found.limit_bytes == limit
    assert (found.origin == VARIABLE) is (limit == 100 * MIB)


def test_without_the_machines_memory_every_limit_counts(tmp_path):
    """The size of the machine's memory cannot be read."""
    read = tree(tmp_path, "0::/\n", {"memory.max": 1 << 50}, host=None)
    assert read().limit_bytes == 1 << 50
