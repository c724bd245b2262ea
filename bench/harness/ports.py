"""TCP ports of loopback addresses: free ones, and those that accept connections.

Ports are chosen below the kernel's ephemeral range: an outgoing connection can take a port found by binding 0 before
its owner listens. A port is free until its owner listens, so no other process may choose it: each process has a part of
the range of its own, as long as it holds the part's first port, and takes its ports in turn: one that was returned is
not returned again before all others, and long runs stay free.
"""

import atexit
import random
import socket
from collections import deque
from functools import cache
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_FIRST, _LAST = 10_101, 31_981
"""Browsers refuse some lower ports: 10,080 is the highest of them."""
_PART: Final = 684
"""There are 32: `make test` runs five suites at once, some tests start processes that choose ports, too, and others may
test another copy of the tree."""


def free_ports(address: str = LOOPBACK, count: int = 1) -> int:
    """Return the first of `count` consecutive free ports on `address`.

    Raises:
        OSError: none were found.
    """
    ports = _own_ports()
    for _ in range(len(ports)):
        first, last = ports[0], ports[count - 1]
        if last - first == count - 1 and all(
            _is_free(address, port) for port in range(first, last + 1)
        ):
            ports.rotate(-count)
            return first
        ports.rotate(-1)
    raise OSError(f"no {count} consecutive free ports on {address}")


def accepts(address: str, port: int) -> bool:
    """Return whether a connection to the port is accepted now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


@cache
def _own_ports() -> deque[int]:
    """Return the ports of a part that no other process has, or of the whole range, the next one first."""
    ports = range(_FIRST, _LAST)
    for first in range(_FIRST, _LAST, _PART):
        holder = socket.socket()
        try:
            holder.bind((LOOPBACK, first))
        except OSError:
            holder.close()
        else:
            atexit.register(holder.close)  # and held until then
            ports = range(first + 1, first + _PART)
            break
    in_turn = deque(ports)
    in_turn.rotate(
        random.randrange(len(ports))
    )  # the last owner of the part may have used its first ports
    return in_turn


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
