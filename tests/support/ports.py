"""Ports that stay free until they are used.

Taken below the kernel's ephemeral range: a port got by binding 0 can be taken by any outgoing connection before its
owner listens on it. Each run starts looking at a random place, so that runs side by side seldom meet.
"""

import random
import socket

_FIRST, _LAST = 15_000, 31_000


def free_ports(address: str, count: int = 1) -> int:
    """The first of `count` consecutive ports on `address` that nobody listens on now."""
    for _ in range(200):
        first = random.randrange(_FIRST, _LAST - count)
        if all(_is_free(address, port) for port in range(first, first + count)):
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
