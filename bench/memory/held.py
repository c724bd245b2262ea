"""The reply bytes that a proxy buffers for each connection, as the kernel sees them.

Held bytes are those that the process read from the broker's socket minus those that it wrote to the client's socket.
The kernel reports both (sock_diag(7), struct tcp_info), so the figure does not depend on the proxy's own counters.
Bytes in the kernel's socket buffers are not held.

A client's connection and its broker connection are paired by their descriptors. This is correct if clients connect one
after another, each with a reply before the next, while no other connection comes or goes.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Final

from bench.harness import BenchError
from bench.harness.usage import PROC

SOCK_DIAG: Final = 4
"""NETLINK_SOCK_DIAG of <linux/netlink.h>."""
_BY_FAMILY, _DUMP, _ERROR, _DONE = 20, 0x301, 2, 3
_ESTABLISHED: Final = 1 << 1
_INFO: Final = 2
"""INET_DIAG_INFO, which is struct tcp_info."""
_HEAD: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBxI48x")
_MESSAGE: Final = struct.Struct("=BBBB2s2s16s16s12xIIIII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ACKED_AND_RECEIVED_AT: Final = 120
"""The offset of tcpi_bytes_acked and tcpi_bytes_received, 64 bits each, in struct tcp_info."""
_UNSENT_AT: Final = 144
"""The offset of tcpi_notsent_bytes, 32 bits."""
_ANSWER_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """An established connection, with the bytes that its process has read and written."""

    inode: int
    remote: tuple[str, int]
    read_bytes: int
    written_bytes: int
    unsent_bytes: int = 0
    """Of the written bytes those that the kernel has not sent yet."""


def held_bytes(pid: int, client_host: str, broker: tuple[str, int]) -> list[int]:
    """Return the held bytes of each client from `client_host`, in the order of connecting.

    Raises:
        BenchError: the connections cannot be paired.
    """
    known = {each.inode: each for each in tcp_sockets()}
    mine = [known[inode] for inode in socket_inodes(pid) if inode in known]
    return pair(mine, client_host, broker)


def pair(mine: list[TcpSocket], client_host: str, broker: tuple[str, int]) -> list[int]:
    """Return the same from a proxy's sockets in the order of their descriptors.

    Raises:
        BenchError: a client has no broker connection, or received more than the broker sent.
    """
    found: list[int] = []
    client: TcpSocket | None = None
    for each in mine:
        if each.remote != broker:
            if client is not None and client.remote[0] == client_host:
                raise BenchError("a client has no connection to the broker")
            client = each
        elif client is not None:
            if client.remote[0] == client_host:
                found.append(each.read_bytes - client.written_bytes)
            client = None
    # The kernel counts the SYN as an acknowledged byte.
    if any(held < -1 for held in found):
        raise BenchError("a client received more than the broker sent: the pairs are wrong")
    return found


def tcp_sockets() -> list[TcpSocket]:
    """Return every established IPv4 connection of this network namespace.

    Raises:
        BenchError: the kernel refuses the query.
    """
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
                    raise BenchError("the kernel refused the socket query (sock_diag)")
                found.append(read_message(answer[at + _HEAD.size : at + size]))
                at += -(-size // 4) * 4


def read_message(message: bytes) -> TcpSocket:
    """Return the connection in a struct inet_diag_msg with its attributes."""
    *_, port, _, remote, _, received_queue, sent_queue, _, inode = _MESSAGE.unpack_from(message)
    acked = received = unsent = 0
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            info = at + _ATTRIBUTE.size
            acked, received = struct.unpack_from("=QQ", message, info + _ACKED_AND_RECEIVED_AT)
            (unsent,) = struct.unpack_from("=I", message, info + _UNSENT_AT)
        at += max(4, -(-size // 4) * 4)
    host = socket.inet_ntop(socket.AF_INET, remote[:4])
    return TcpSocket(
        inode,
        (host, int.from_bytes(port, "big")),
        received - received_queue,
        acked + sent_queue,
        unsent,
    )


def socket_inodes(pid: int) -> list[int]:
    """Return the inodes of a process's sockets, in the order of the descriptors."""
    links = []
    for file in sorted((PROC / str(pid) / "fd").iterdir(), key=lambda file: int(file.name)):
        try:
            links.append(str(file.readlink()))
        except FileNotFoundError:  # it was closed
            continue
    return [int(link[8:-1]) for link in links if link.startswith("socket:[")]
