"""Kernel: sockets and CPU time, read from a made-up /proc and from the real one."""

import os
import socket
import sys
from pathlib import Path

import pytest

from proxy.demo.checks import maybe_remote_ports
from proxy.demo.experiment import CpuTicks, maybe_cpu_ticks, maybe_others_share

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when  uid  timeout inode"


def line(local: int, remote: int, state: str, inode: int) -> str:
    """Return a line of /proc/net/tcp as Linux writes it."""
    return (
        f"   0: 0100007F:{local:04X} 0100007F:{remote:04X} {state} 00000000:00000000 "
        f"00:00000000 00000000     0        0 {inode} 1 0000000000000000 20 0 0 10 -1"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with process 7: sockets 100 and 101, a file, and another process's socket."""
    folder = tmp_path / "7"
    (folder / "fd").mkdir(parents=True)
    (folder / "net").mkdir()
    for number, target in enumerate(["socket:[100]", "socket:[101]", "/dev/null"]):
        (folder / "fd" / str(number)).symlink_to(target)
    lines = [
        HEADER,
        line(5000, 9092, "01", 100),
        line(5001, 0, "0A", 101),
        line(1, 9999, "01", 555),
    ]
    (folder / "net" / "tcp").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_only_the_connections_of_the_process_are_returned(proc: Path) -> None:
    """Listening sockets and those of other processes are left out."""
    assert maybe_remote_ports(7, proc) == {9092}


def test_a_process_that_cannot_be_seen_has_unknown_ports(proc: Path) -> None:
    """Without a /proc entry the result is None, not an empty set."""
    assert maybe_remote_ports(8, proc) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
def test_our_own_connection_is_seen() -> None:
    """A connection made by this very process is among its remote ports."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            ports = maybe_remote_ports(os.getpid())

    assert ports is not None
    assert port in ports


def write(proc: Path, line: str, used: dict[int, tuple[int, int]]) -> None:
    """Make a /proc with this first line of stat, and processes that used so much CPU time."""
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"{line}\ncpu0 1 2 3\n")
    for pid, (user, system) in used.items():
        (proc / str(pid)).mkdir(exist_ok=True)
        fields = ["S", *["0"] * 10, str(user), str(system), *["0"] * 30]
        (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")


def test_cpu_time_is_the_demos_an_interrupts_or_others(tmp_path: Path) -> None:
    """Steal counts as others', interrupts as nothing; names with parentheses are parsed."""
    write(tmp_path, "cpu 100 0 100 1000 0 10 10 0 0 0", {7: (50, 20), 8: (10, 0)})
    before = maybe_cpu_ticks([7, 8], tmp_path)
    write(tmp_path, "cpu 130 10 110 1100 0 40 20 10 0 0", {7: (60, 25), 8: (15, 0)})
    after = maybe_cpu_ticks([7, 8], tmp_path)

    assert before == CpuTicks(total=1220, busy=200, own=80)
    assert after == CpuTicks(total=1420, busy=260, own=100)
    assert maybe_others_share(before, after) == pytest.approx((60 - 20) / 200)


def test_cpu_time_that_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    """It is None without /proc, for a process that has ended, or between two reads in one tick."""
    write(tmp_path / "proc", "cpu 1 1 1 1 1 1 1 1", {7: (1, 1)})
    seen = maybe_cpu_ticks([7], tmp_path / "proc")

    assert maybe_cpu_ticks([7], tmp_path / "nowhere") is None
    assert maybe_cpu_ticks([9], tmp_path / "proc") is None
    assert maybe_others_share(None, seen) is None
    assert maybe_others_share(seen, seen) is None


def test_the_share_of_others_is_never_negative() -> None:
    """The kernel's two counts are not taken at the same moment."""
    assert maybe_others_share(CpuTicks(0, 0, 0), CpuTicks(100, 20, 30)) == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
def test_this_process_has_used_some() -> None:
    """The real /proc can be read."""
    used = maybe_cpu_ticks([os.getpid()])

    assert used is not None
    assert 0 < used.own <= used.busy <= used.total
