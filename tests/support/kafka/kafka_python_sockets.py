"""Sockets of kafka-python that close without a warning when they are collected.

kafka-python 3.0 forgets the socket of a connect that is interrupted: `kafka.net.inet` closes it in no case. Python
closes it at a later garbage collection with a ResourceWarning, which fails another test.
"""

import socket

from kafka.net.inet import KafkaNetSocket


class CollectedSocket(socket.socket):
    """A socket whose descriptor is closed at the latest when it is collected."""

    def __del__(self) -> None:
        self.close()


def install() -> None:
    """Let every connection that kafka-python opens from now on have such a socket."""
    KafkaNetSocket.socket = _socket


def _socket(
    owner: KafkaNetSocket,
    family: int = socket.AF_UNSPEC,
    sock_type: int = socket.SOCK_STREAM,
    proto: int = socket.IPPROTO_TCP,
) -> socket.socket:
    return CollectedSocket(family, sock_type, proto)
