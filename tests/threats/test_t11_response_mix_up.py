"""T11: a reply that reaches the wrong client, because connections break or correlation ids do not match.

Each client has a broker connection of its own, and replies are matched in order. A reply that does not match closes
both sides. No client ever gets a byte of another client's reply.
"""

import random
import socket
import struct
import threading

import pytest

from tests.support.faults.honest import Honest, receive_frames
from tests.support.faults.stub_broker import CLOSE, StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import scaled, tell

CLIENTS = 32
DEPTH = 5
ROUNDS = scaled(25, 500)


class Restless(threading.Thread):
    """Pipelines, and sometimes leaves inside a frame; `problems` lists the bytes it got that were not its own."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(name=f"restless{number}", daemon=True)
        self.problems: list[str] = []
        self.whole_rounds = 0
        self._port = port
        self._chance = random.Random(number)

    def run(self) -> None:
        client = Honest(self._port, self.name)
        for _ in range(ROUNDS):
            asked = [client.next_request() for _ in range(DEPTH)]
            expected = b"".join(reply for _, reply in asked)
            turn = self._chance.random()
            try:
                client.socket.sendall(b"".join(request for request, _ in asked))
                if turn < 0.1:  # half a reply, then gone without a word
                    self._compare(client.socket.recv(20), expected)
                    client.socket.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                    client.socket.close()
                elif turn < 0.2:  # half-closes and keeps reading
                    client.socket.shutdown(socket.SHUT_WR)
                    self._compare(receive_until_closed(client.socket), expected)
                    client.socket.close()
                else:
                    got = b"".join(receive_frames(client.socket, DEPTH))
                    self._compare(got, expected)
                    if got == expected:
                        self.whole_rounds += 1
                        continue
                    client.socket.close()  # the broker hung up
            except ConnectionError:
                client.socket.close()
            client = Honest(self._port, self.name)
        client.socket.close()

    def _compare(self, got: bytes, expected: bytes) -> None:
        if not expected.startswith(got):
            self.problems.append(f"{self.name} got {got!r}, not {expected!r}")


@pytest.mark.parametrize("hanging_up", [0, 0.02], ids=["steady", "hanging up"])
def test_every_byte_is_the_clients_own(start, hanging_up: float) -> None:
    """32 clients pipeline payloads of their own, the broker answers in bursts, and connections break at random."""
    chance = random.Random(7)

    def answer(request: bytes) -> bytes | None:
        return CLOSE if chance.random() < hanging_up else stub.usual(request)

    with StubBroker(answer, burst=7) as stub:
        sluice = start(stub.server)
        clients = [Restless(sluice.port, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(240)
        assert not any(client.is_alive() for client in clients)
        assert [problem for client in clients for problem in client.problems] == []
        rounds = sum(client.whole_rounds for client in clients)
        tell(
            "T11",
            f"{CLIENTS} clients, {rounds} rounds of {DEPTH} and {stub.connected} connections: 0 foreign bytes",
        )
        assert all(client.whole_rounds for client in clients)
        assert stub.connected > CLIENTS


def other_id(request: bytes, reply: bytes) -> bytes:
    """Return the reply with a correlation id that was not sent."""
    ident = struct.unpack_from(">i", reply, 4)[0]
    return reply[:4] + struct.pack(">i", ident + 1) + reply[8:]


def unasked(request: bytes, reply: bytes) -> bytes:
    """Return the right reply and after it one without a request."""
    return reply + f.reply(99, b"SECRET")


@pytest.mark.parametrize("lie", [other_id, unasked], ids=["another id", "nothing asked"])
def test_an_unmatched_reply_ends_that_session_and_no_other(start, lie) -> None:
    """Both its sides are closed, its client gets no byte of that reply, and other clients are served."""

    def answer(request: bytes) -> bytes | None:
        reply = stub.usual(request)
        return lie(request, reply) if b"liar" in request else reply

    with StubBroker(answer) as stub:
        sluice = start(stub.server)
        with Honest(sluice.port) as other, Honest(sluice.port, "liar") as lied_to:
            other.ask()
            assert stub.open == 1  # the other is silent until now
            request, expected = lied_to.next_request()
            lied_to.socket.sendall(request)
            got = receive_until_closed(lied_to.socket)
            # The right reply may be lost with the wrong one after it, but never in part.
            assert got == b"" or (lie is unasked and got == expected)
            other.ask()
            assert stub.open == 1
        # A session is logged when both its sides are closed.
        await_that(lambda: "broker_protocol" in sluice.said(), "the log to tell of it")
