"""Sockets: the kernel's tables, read from a made-up /proc and from the real one."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.demo.sockets import maybe_remote_ports

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when  uid  timeout inode"


def line(local: int, remote: int, state: str, inode: int) -> str:
    """Return a line of /proc/net/tcp as Linux writes it."""
    return (
        f"   0: 0100007F:{local:04X} 0100007F:{remote:04X} {state} 00000000:00000000 "
        f"00:00000000 00000000     0        0 {inode} 1 0000000000000000 20 0 0 10 -1"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with process 7: sockets 100 and 101, a file, and other processes' sockets."""
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


def test_only_the_processes_own_connections_count(proc: Path) -> None:
    """Listening sockets and those of other processes are left out."""
    assert maybe_remote_ports(7, proc) == {9092}


def test_a_process_that_cannot_be_seen_is_not_known(proc: Path) -> None:
    """Without a /proc entry the answer is None, not an empty set."""
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
