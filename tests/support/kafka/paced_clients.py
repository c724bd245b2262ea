"""Clients of a known pace before any number of Sluices: synchronous connections that think between their requests.

All run in one thread. The request is a Heartbeat of a group that does not exist, which a broker answers at once. They
ignore throttle_time_ms, so only Sluice slows them down.
"""

import heapq
import itertools
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.messages import frames as f


@dataclass(frozen=True)
class PacedClient:
    """So many connections of a client id; `think_ms` makes the think times of the connection of this number."""

    client_id: str
    connections: int
    think_ms: Callable[[int], Callable[[], int]]


def run_paced(ports: Sequence[int], clients: Sequence[PacedClient], seconds: float) -> None:
    """Run all clients against each of the ports at the same time, with the same think times.

    They begin and end at a whole second, so that no row of a run is about a part of a second. A request of another
    client comes first, because the first answer of a broker may take seconds.
    """
    for port in ports:
        _warm_up(port)
    connections = [
        _PacedConnection(port, client, number)
        for port in ports
        for client in clients
        for number in range(client.connections)
    ]
    serial = itertools.count()
    began = time.monotonic() + 1.05 - time.time() % 1
    due = [(began, next(serial), each) for each in connections]
    heapq.heapify(due)
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each.socket, selectors.EVENT_READ, each)
        ends = began + seconds - 0.1
        while (now := time.monotonic()) < ends:
            while due and due[0][0] <= now:
                heapq.heappop(due)[2].ask()
            wait = min(ends, due[0][0] if due else ends) - now
            for key, _ in selector.select(max(0.0, wait)):
                each = key.data
                if each.has_reply():
                    heapq.heappush(due, (time.monotonic() + each.think_s(), next(serial), each))
        waiting = {each for each in connections if each.waits}
        while waiting:  # so that no request is held when its client disconnects
            for key, _ in selector.select():
                if key.data.has_reply():
                    waiting.remove(key.data)
    for each in connections:
        each.socket.close()


def _warm_up(port: int) -> None:
    first = _PacedConnection(port, PacedClient("first", 1, lambda _: lambda: 0), 0)
    first.ask()
    while not first.has_reply():
        pass
    first.socket.close()


class _PacedConnection:
    def __init__(self, port: int, client: PacedClient, number: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client.client_id
        self._think_ms = client.think_ms(number)
        self._number = 0
        self._read = b""
        self.waits = False

    def think_s(self) -> float:
        return self._think_ms() / 1000

    def ask(self) -> None:
        self.waits = True
        self._number += 1
        self.socket.sendall(f.heartbeat(self._number, self._client_id))

    def has_reply(self) -> bool:
        data = self.socket.recv(4096)
        assert data, f"{self._client_id}: Sluice has closed the connection"
        self._read += data
        whole = len(self._read) >= 4 and len(self._read) - 4 >= int.from_bytes(
            self._read[:4], "big"
        )
        if whole:
            self._read = b""
            self.waits = False
        return whole
