"""Ports that stay free until they are used.

Taken below the kernel's ephemeral range: a port got by binding 0 can be taken by any outgoing connection before its
owner listens on it. Each run starts looking at a random place, so that runs side by side seldom meet; the last few
hundred ports that were given are not given again, for their owners may not listen on them yet.
"""

import random
import socket
from collections import deque

_FIRST, _LAST = 15_000, 31_000
_given: deque[int] = deque(maxlen=1000)


def free_ports(address: str, count: int = 1) -> int:
    """The first of `count` consecutive ports on `address` that nobody listens on now."""
    for _ in range(200):
        first = random.randrange(_FIRST, _LAST - count)
        ports = range(first, first + count)
        if not any(port in _given for port in ports) and all(
            _is_free(address, port) for port in ports
        ):
            _given.extend(ports)
            return first
    raise OSError(f"no {count} consecutive free ports on {address}")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
