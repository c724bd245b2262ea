"""To whom a process is connected, as the kernel tells (Linux: proc_pid_net(5)).

Rules:
- Only TCP over IPv4 or IPv6; a listening socket has no other end and is left out.
- Where there is no `/proc`, the answer is None: not known, never "none".
"""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"


def maybe_remote_ports(pid: int, proc: Path = PROC) -> frozenset[int] | None:
    """Return the ports at the far end of the process's TCP sockets; None where none can be seen."""
    try:
        inodes = _socket_inodes(proc / str(pid) / "fd")
        lines = [
            line for table in ("tcp", "tcp6") for line in _table(proc / str(pid) / "net" / table)
        ]
    except OSError:
        return None
    ports = set()
    for line in lines:
        fields = line.split()
        remote, state, inode = fields[2], fields[3], fields[9]
        if inode in inodes and state != _LISTEN:
            ports.add(int(remote.rpartition(":")[2], 16))
    return frozenset(ports)


def _table(path: Path) -> list[str]:
    # A kernel without IPv6 has no tcp6.
    return path.read_text("ascii").splitlines()[1:] if path.exists() else []


def _socket_inodes(folder: Path) -> set[str]:
    inodes = set()
    for link in folder.iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue  # closed while we looked
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    return inodes
