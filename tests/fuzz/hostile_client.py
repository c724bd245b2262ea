"""Clients in a process of their own that send frames by grammar; those with an even number mutate a share of them.

    python -m tests.fuzz.hostile_client PORT NODES SEED WILD SECONDS

They send whole and half frames, slowly or pipelined, to the bootstrap port and the nodes'; read, or not; leave with a
FIN, inside a frame, or with a RST; or stand still. Sluice's replies are decoded and checked: no host but Sluice's.
The last output is one line of JSON: connections, frames, replies, problems.
"""

import json
import random
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tests.fuzz import conversations
from tests.fuzz.lying_broker import CLIENT_SHIFT, FIRST_CLIENT
from tests.fuzz.mutation import mutated
from tests.fuzz.peers import Answered
from tests.fuzz.stock import Stock

THREADS: Final = 3
STANDING_MAX: Final = 40
"""Connections that stand still, of each thread."""
FRAMES_MAX: Final = (1 << CLIENT_SHIFT) - 1
TALK_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 120.0
"""For a first reply, where a crowded machine leaves most of them for later than QUIET_SECONDS."""
RST: Final = struct.pack("ii", 1, 0)


class Hostile(threading.Thread):
    """Connects again and again, numbered from `number` in steps of
    THREADS; `standing` are the connections that stand still.
    """

    def __init__(self, ports: list[int], number: int, seed: int, wild: float, stock: Stock) -> None:
        super().__init__(name=f"hostile{number}", daemon=True)
        self.connections = self.frames = self.replies = 0
        self.problems: list[str] = []
        self._ports = ports
        self._client = FIRST_CLIENT + number
        self._chance = random.Random(seed * 1000 + number)
        self._stock = stock
        self._wild = wild
        self.until = 0.0
        self._standing: list[socket.socket] = []

    def run(self) -> None:
        corpus = [each for name in conversations.names() for each in conversations.read(name)]
        for conversation in corpus if self._wild else ():
            self._talk(b"".join(line.data for line in conversation if line.by_client), Answered())
        until = self.until
        while time.monotonic() < until and not self.problems:
            answered = Answered()
            self._talk(b"".join(self._frames(answered)), answered)
            until = self.until if self.replies else self.until + PATIENCE_SECONDS
        for each in self._standing:
            each.close()

    def _frames(self, answered: Answered) -> Iterator[bytes]:
        chance, stock = self._chance, self._stock
        self._client += THREADS
        wild = self._wild * chance.choice((0, 0.2, 1, 2)) * (self._client % 2 == 0)
        for number in range(chance.choice((1, 2, 5, 20, 100, FRAMES_MAX))):
            ident = (self._client % (1 << 22)) << CLIENT_SHIFT | number
            frame = stock.request(stock.pick(chance), ident, chance)
            if chance.random() < wild:
                frame = mutated(frame, chance)
            answered.sent(frame)
            self.frames += 1
            yield frame

    def _talk(self, data: bytes, answered: Answered) -> None:
        chance = self._chance
        self.connections += 1
        client = socket.socket()
        if chance.random() < 0.1:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        try:
            client.connect(("127.0.0.1", chance.choice(self._ports)))
            client.setblocking(False)
            reads = chance.random() < 0.9
            self._send(client, data, answered, reads=reads)
            turn = chance.random()
            if turn < 0.15:
                self._stand(client)
                return
            if turn < 0.5:
                client.shutdown(socket.SHUT_WR)
            if reads:
                self._receive(client, answered, QUIET_SECONDS)
            if turn > 0.9:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        except AssertionError as problem:
            self.problems.append(f"{problem}; it had sent {data.hex()}")
        except OSError:
            pass  # it was hung up on
        client.close()
        self.replies += answered.frames

    def _send(self, client: socket.socket, data: bytes, answered: Answered, *, reads: bool) -> None:
        """Send all bytes, or those that are accepted within a time; replies are read meanwhile."""
        chance = self._chance
        slow = chance.random() < 0.1
        give_up = time.monotonic() + TALK_SECONDS
        at = 0
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)]
        while at < len(data) and time.monotonic() < give_up:
            piece = data[at : at + chance.choice((1, 3, 9, 500))] if slow else data[at:]
            _, writable, _ = select.select([], [client], [], QUIET_SECONDS)
            if writable:
                with suppress(BlockingIOError):
                    at += client.send(piece)
            if reads:
                self._receive(client, answered, 0.001 if slow else 0)

    def _receive(self, client: socket.socket, answered: Answered, quiet_s: float) -> None:
        """Read until no byte arrives for `quiet_s`."""
        while select.select([client], [], [], quiet_s)[0]:
            data = client.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            answered.read(data)

    def _stand(self, client: socket.socket) -> None:
        self._standing.append(client)
        if len(self._standing) > STANDING_MAX:
            self._standing.pop(self._chance.randrange(STANDING_MAX)).close()


def main() -> None:
    """Attack for so many seconds and print the outcome."""
    port, nodes, seed = map(int, sys.argv[1:4])
    stock = Stock()
    stock.fill()
    ports = [port] * 3 + [port + 1 + node for node in range(nodes)]
    threads = [Hostile(ports, n, seed, float(sys.argv[4]), stock) for n in range(THREADS)]
    for thread in threads:
        thread.until = time.monotonic() + float(sys.argv[5])
        thread.start()
    for thread in threads:
        thread.join()
    told = {
        "connections": sum(each.connections for each in threads),
        "frames": sum(each.frames for each in threads),
        "replies": sum(each.replies for each in threads),
        "problems": [problem for each in threads for problem in each.problems],
    }
    print(json.dumps(told))  # noqa: T201 - this is how it tells


if __name__ == "__main__":
    main()
