"""A process that stood still: replies that came meanwhile are read before any deadline of that time fires."""

import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from bench.harness.processes import suspended
from tests.support.faults.honest import Honest, receive_frames
from tests.support.faults.stub_broker import StubBroker, body_of
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.sluice_process import SluiceProcess

CLIENTS: Final = 100
"""Of each kind: more than one poll brings."""
DEADLINE_MS: Final = 4_000
"""Of the first play. A play counts if Sluice stands still before its deadline; the next one has four times as long."""
THROTTLED: Final = 3
POLICIES: Final = [
    {
        "use": "quota",
        "config": {"quotas": [{"client_id": "slow", "request_rate": 2}], "burst_seconds": 1},
    }
]
EMPTY: Final = struct.pack(">ii", 0, 0)
"""Body of a Fetch v4 reply without topics: an answer made by Sluice would name those that were asked for."""


def fetch(correlation_id: int, deadline_ms: int) -> bytes:
    """Fetch v4 that may wait for half the deadline."""
    asked = struct.pack(">i", 1) + f.string("t") + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    body = struct.pack(">iiii", -1, deadline_ms // 2, 1, 1 << 20) + b"\x00" + asked
    return f.request(f.FETCH, 4, correlation_id, body)


def produce(correlation_id: int, deadline_ms: int) -> bytes:
    """Produce v3 with acks=all and the deadline as timeout."""
    whole = f.produce(correlation_id)
    return whole.replace(struct.pack(">hi", -1, 30_000), struct.pack(">hi", -1, deadline_ms))


KINDS: Final = {
    "fetch": (fetch, lambda n: f.reply(n, EMPTY)),
    "produce": (produce, f.produce_reply),
    "heartbeat": (lambda n, _: f.heartbeat(n), lambda n: f.reply(n, body_of(f.heartbeat(n)))),
}


TOTAL: Final = len(KINDS) * CLIENTS + THROTTLED


class LateBroker(StubBroker):
    """Sends nothing before `reply` is set."""

    def __init__(self) -> None:
        super().__init__(self._answer_fetches)
        self.reply = threading.Event()

    def _answer_fetches(self, request: bytes) -> bytes | None:
        key, _, correlation_id = struct.unpack_from(">hhi", request, 4)
        return f.reply(correlation_id, EMPTY) if key == f.FETCH else self.usual(request)

    def _send(self, connection) -> None:
        if self.reply.is_set():
            super()._send(connection)


def settings_of(stub: LateBroker, deadline_ms: int) -> dict[str, object]:
    return {
        "upstream": {"bootstrap_servers": [stub.server], "request_timeout_ms": deadline_ms},
        "purgatory": {"silence_ms": deadline_ms, "produce_grace_ms": 0, "fetch_grace_ms": 0},
        "drain": {"timeout_ms": deadline_ms},
        "policies": POLICIES,
    }


def stood_still(
    sluice: SluiceProcess, stub: LateBroker, replies: int, began_s: float, deadline_ms: int
) -> bool:
    """Sluice stands still while so many replies come, and until every deadline has passed. Returns whether it did so
    before the first deadline: if not, the play says nothing.
    """
    with suspended(sluice.pid):
        if time.monotonic() - began_s >= deadline_ms / 1000:
            return False
        stub.reply.set()
        await_that(lambda: stub.replied >= replies, "the replies")
        threading.Event().wait(deadline_ms / 1000 + 0.5)
    return True


def until_in_time(play: Callable[[int], bool]) -> None:
    """Play with longer and longer deadlines until one play counts, on a machine of any speed."""
    deadline_ms = DEADLINE_MS
    while not play(deadline_ms):
        deadline_ms *= 4


def test_replies_that_came_while_the_process_stood_still_are_delivered(start):
    """No fetch is answered empty, no produce with an error, no connection is closed; throttled clients are served."""

    def play(deadline_ms: int) -> bool:
        with LateBroker() as stub, ExitStack() as clients:
            sluice = start(stub.server, settings=settings_of(stub, deadline_ms))
            opened = [clients.enter_context(Honest(sluice.port)).socket for _ in range(TOTAL)]
            asked = {}
            unused = iter(opened)
            began_s = time.monotonic()
            for request, reply in KINDS.values():
                for n, client in zip(range(CLIENTS), unused, strict=False):
                    client.sendall(request(n, deadline_ms))
                    asked[client] = [reply(n)]
            await_that(lambda: stub.seen.total() == len(asked), "the requests at the broker")
            for n, client in enumerate(opened[-THROTTLED:]):
                client.sendall(f.heartbeat(n, "slow") + f.heartbeat(n + 1, "slow"))
                asked[client] = [KINDS["heartbeat"][1](n), KINDS["heartbeat"][1](n + 1)]
            await_that(lambda: stub.seen.total() > len(KINDS) * CLIENTS, "a throttled request")
            if not stood_still(sluice, stub, stub.seen.total(), began_s, deadline_ms):
                return False
            got = {
                client: receive_frames(client, len(replies)) for client, replies in asked.items()
            }
        assert sum(got[client] != asked[client] for client in asked) == 0
        return True

    until_in_time(play)


def test_replies_that_came_while_the_process_stood_still_are_delivered_before_a_drain_ends(start):
    """The drain's deadline has passed, too."""

    def play(deadline_ms: int) -> bool:
        with LateBroker() as stub, ExitStack() as clients:
            sluice = start(stub.server, settings=settings_of(stub, deadline_ms))
            asked = [clients.enter_context(Honest(sluice.port)) for _ in range(2 * CLIENTS)]
            began_s = time.monotonic()
            for client in asked:
                client.socket.sendall(f.produce(7))
            await_that(lambda: stub.seen.total() == len(asked), "the requests at the broker")
            sluice.terminate()
            await_that(lambda: "draining" in sluice.said(), "the drain")
            if not stood_still(sluice, stub, len(asked), began_s, deadline_ms):
                return False
            got = [receive_until_closed(client.socket) for client in asked]
            assert sum(each != f.produce_reply(7) for each in got) == 0
            sluice.await_exit()
        return True

    until_in_time(play)
