"""T22: a broker that is slow, taken for dead.

Sluice answers in a broker's place only when it is silent on every connection. A slow but living broker's own replies
reach the client, with any deadline of the request.
"""

import socket
import struct
import threading
from collections.abc import Callable

import pytest

from tests.support.faults.honest import receive_frames
from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply
from tests.support.processes.measured import tell

NAP = threading.Event()
FETCH_SECONDS = 1.6
"""Longer than the half second that the fetch may wait, and the grace of a second."""
PRODUCE_SECONDS = 0.6
"""Longer than half of the produce's timeout of a second."""


def quick_produce(correlation_id: int) -> bytes:
    """Return a Produce with acks=all and a timeout of a second."""
    return f.produce(correlation_id).replace(struct.pack(">i", 30_000), struct.pack(">i", 1_000), 1)


@pytest.mark.parametrize(
    ("seconds", "ask", "reply"),
    [(FETCH_SECONDS, fetch, fetch_reply), (PRODUCE_SECONDS, quick_produce, f.produce_reply)],
)
def test_a_slow_broker_is_waited_for(
    start, seconds: float, ask: Callable[[int], bytes], reply: Callable[[int], bytes]
) -> None:
    """Three in a row get the broker's own reply; on a slower machine the broker is only slower, up to 10 s."""

    def answer(request: bytes) -> bytes | None:
        key, _, ident = struct.unpack_from(">hhi", request, 4)
        if key not in {f.FETCH, f.PRODUCE}:
            return stub.usual(request)
        NAP.wait(seconds)
        return reply(ident)

    with StubBroker(answer) as stub:
        sluice = start(stub.server)
        with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as client:
            for n in range(3):
                client.sendall(ask(n))
                assert receive_frames(client, 1) == [reply(n)]
            tell("T22", f"3 replies after {seconds} s each: the broker's own, and no error")
