"""How much the event loop reads at once: less from a side whose bytes the other side does not take."""

import socket
from typing import Final

import pytest

from proxy.shell.event_loop import MIN_READ_BYTES, MORE_READ_BYTES, READ_BYTES
from proxy.shell.poller import IN
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, receive, receive_through, start_sending

REPLY_BYTES: Final = 6 << 20
SEND_BUFFER_BYTES: Final = 32 << 10


@pytest.fixture
def slow(bench):
    """Return a bench, the far ends of a link whose client takes little at once, its session, and the areas of reads."""
    client, broker, session = bench.link()
    with socket.socket(fileno=socket.dup(session.handle.fd)) as near:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    areas: list[int] = []
    receive_through(session.handle.other, lambda area: areas.append(len(area)))
    client.sendall(f.heartbeat(1))
    bench.run()
    return bench, client, broker, session, areas


def pass_large_reply(bench: Bench, client: socket.socket, broker: socket.socket) -> None:
    """Let the broker send the reply to the first request, and the client read all of it."""
    reply = f.reply(1, bytes(REPLY_BYTES))
    sender = start_sending(broker, reply)
    assert bench.receive(client, len(reply)) == reply
    sender.join()


def test_reads_shrink_to_what_a_slow_client_takes(slow):
    """Few bytes wait for it then, and few are copied."""
    bench, client, broker, _, areas = slow
    pass_large_reply(bench, client, broker)
    assert areas[0] == READ_BYTES
    settled = areas[len(areas) // 2 :]
    assert max(settled) < READ_BYTES // 2
    assert min(settled) >= MIN_READ_BYTES
    assert bench.held_bytes == 0


def test_reads_grow_again_with_each_that_is_taken_whole(slow):
    """In the end the side is on the fast path, as before."""
    bench, client, broker, session, areas = slow
    pass_large_reply(bench, client, broker)
    end = session.handle.other
    least = end.read_bytes
    assert least < READ_BYTES
    areas.clear()
    number = 1
    while end.read_bytes < READ_BYTES:
        number += 1
        client.sendall(f.heartbeat(number))
        bench.run()
        answer = f.heartbeat_reply(number)
        broker.sendall(answer)
        bench.run()
        assert receive(client, len(answer)) == answer
    grown = [min(least + n * MORE_READ_BYTES, READ_BYTES) for n in range(len(areas))]
    assert areas == grown
    assert end.expect == IN
