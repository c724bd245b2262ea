"""TCP ports of loopback addresses: free ones, and those that accept connections.

Ports are chosen below the kernel's ephemeral range: an outgoing connection can take a port found by binding 0 before
its owner listens. The search starts at a random port, so that concurrent runs rarely collide. The last 1,000 ports
returned are not returned again, because their owners may not listen yet.
"""

import random
import socket
from collections import deque
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_FIRST, _LAST = 15_000, 31_000
_TRIES: Final = 200
_given: deque[int] = deque(maxlen=1000)


def free_ports(address: str = LOOPBACK, count: int = 1) -> int:
    """Return the first of `count` consecutive free ports on `address`.

    Raises:
        OSError: none were found.
    """
    for _ in range(_TRIES):
        first = random.randrange(_FIRST, _LAST - count)
        ports = range(first, first + count)
        if not any(port in _given for port in ports) and all(
            _is_free(address, port) for port in ports
        ):
            _given.extend(ports)
            return first
    raise OSError(f"no {count} consecutive free ports on {address}")


def accepts(address: str, port: int) -> bool:
    """Return whether a connection to the port is accepted now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
