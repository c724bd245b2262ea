"""The TCP connections of the processes on this machine, sampled while a test runs."""

import threading
from dataclasses import dataclass, field
from typing import Self

import psutil

_LOOK_SECONDS = 0.3


@dataclass(slots=True)
class ConnectionWatch:
    """The processes that were seen with a connection to one of these addresses (host, port)."""

    addresses: set[tuple[str, int]]
    pids: set[int] = field(default_factory=set)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            for connection in psutil.net_connections("tcp"):
                if connection.pid and connection.raddr in self.addresses:
                    self.pids.add(connection.pid)


def peers_of(pid: int) -> set[tuple[str, int]]:
    """Return the remote ends (address, port) of a process's established connections."""
    connections = psutil.Process(pid).net_connections("tcp")
    return {
        (one.raddr.ip, one.raddr.port)
        for one in connections
        if one.raddr and one.status == "ESTABLISHED"
    }
