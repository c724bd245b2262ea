"""Free ports, and ports that accept connections."""

import socket
import subprocess
import sys
from pathlib import Path

from bench.harness.ports import free_ports

ROOT = Path(__file__).resolve().parents[3]


def test_free_ports_are_consecutive_between_the_browsers_and_the_ephemeral_ones() -> None:
    """Every one of them can be bound, and no port is returned twice."""
    first, other = free_ports(count=3), free_ports(count=3)
    assert not set(range(first, first + 3)) & set(range(other, other + 3))
    for port in range(first, first + 3):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
        assert 10_080 < port < 32_000


def test_no_other_process_is_given_a_port_of_ours() -> None:
    """Its owner may not listen yet when another process looks for a free one."""
    own = {free_ports() for _ in range(500)}
    assert len(own) == 500
    code = "from bench.harness.ports import free_ports; print(*{free_ports() for _ in range(300)})"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert own.isdisjoint(map(int, other.stdout.split()))
