"""How much of what the broker sent a proxy still has in its own hands, connection by connection, as the kernel sees it.

Held = what the process has taken from the broker's socket - what it has given to the client's socket. Both are told by
the kernel (sock_diag(7), struct tcp_info), so nothing of it rests on what the proxy says of itself. What stands in the
kernel's own socket buffers is not held.

A client and its broker connection are paired by their descriptors: whoever opens clients one after another, each with
an answer before the next, gets them in that order.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from bench.build import BenchError
from bench.processes import PROC

SOCK_DIAG: Final = 4
"""NETLINK_SOCK_DIAG of <linux/netlink.h>."""
_BY_FAMILY, _DUMP, _ERROR, _DONE = 20, 0x301, 2, 3
_ESTABLISHED: Final = 1 << 1
_INFO: Final = 2
"""INET_DIAG_INFO: struct tcp_info comes with it."""
_HEAD: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBxI48x")
_MESSAGE: Final = struct.Struct("=BBBB2s2s16s16s12xIIIII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ACKED_AND_RECEIVED_AT: Final = 120
"""Of tcpi_bytes_acked and tcpi_bytes_received, 64 bits each, in struct tcp_info."""
_ANSWER_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One established connection. `taken_bytes` the process has read, `given_bytes` it has written."""

    inode: int
    remote: tuple[str, int]
    taken_bytes: int
    given_bytes: int


def held_bytes(pid: int, client_host: str, broker: tuple[str, int]) -> list[int]:
    """Of each client from `client_host`, in the order of their opening.

    Raises:
        BenchError: they cannot be paired.
    """
    known = {each.inode: each for each in tcp_sockets()}
    mine = [known[inode] for inode in _inodes(pid) if inode in known]
    return pair(mine, client_host, broker)


def pair(mine: list[TcpSocket], client_host: str, broker: tuple[str, int]) -> list[int]:
    """As `held_bytes`; `mine` are a proxy's sockets by descriptor.

    Raises:
        BenchError: a client has no broker, or got more than came for it.
    """
    found: list[int] = []
    client: TcpSocket | None = None
    for each in mine:
        if each.remote != broker:
            if client is not None and client.remote[0] == client_host:
                raise BenchError("a client's connection to the broker was not found")
            client = each
        elif client is not None:
            if client.remote[0] == client_host:
                found.append(each.taken_bytes - client.given_bytes)
            client = None
    # The kernel counts the SYN of a connection among what was acknowledged.
    if any(held < -1 for held in found):
        raise BenchError("a client got more than came for it: they are not paired rightly")
    return found


def tcp_sockets() -> list[TcpSocket]:
    """Every established IPv4 connection of this network namespace."""
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ESTABLISHED)
    found: list[TcpSocket] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as netlink:
        netlink.send(_HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            answer = netlink.recv(_ANSWER_BYTES)
            at = 0
            while at < len(answer):
                size, kind, *_ = _HEAD.unpack_from(answer, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise BenchError("the kernel tells nothing of its sockets (sock_diag)")
                found.append(read_message(answer[at + _HEAD.size : at + size]))
                at += -(-size // 4) * 4


def read_message(message: bytes) -> TcpSocket:
    """One struct inet_diag_msg and its attributes."""
    *_, port, _, remote, _, received_queue, sent_queue, _, inode = _MESSAGE.unpack_from(message)
    acked = received = 0
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            place = at + _ATTRIBUTE.size + _ACKED_AND_RECEIVED_AT
            acked, received = struct.unpack_from("=QQ", message, place)
        at += max(4, -(-size // 4) * 4)
    host = socket.inet_ntop(socket.AF_INET, remote[:4])
    return TcpSocket(
        inode,
        (host, int.from_bytes(port, "big")),
        received - received_queue,
        acked + sent_queue,
    )


def _inodes(pid: int) -> list[int]:
    """Of a process's sockets, by descriptor."""
    links = []
    for file in sorted((PROC / str(pid) / "fd").iterdir(), key=lambda file: int(file.name)):
        try:
            links.append(str(file.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return [int(link[8:-1]) for link in links if link.startswith("socket:[")]
