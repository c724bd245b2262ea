"""Listeners bind all ports or none, hand over each connection with its node, and pause instead of spinning."""

import errno
import socket
from collections.abc import Iterator

import pytest
import trio

from bench.harness.ports import accepts, free_ports
from proxy.shell.listeners import PAUSE_S, Listeners


async def test_each_connection_is_handed_over_with_the_node_of_its_port(nursery):
    """The node of the bootstrap port is None."""
    ports = {None: free_ports(), 3: free_ports()}
    listeners = Listeners("127.0.0.1", ports.items())
    send, receive = trio.open_memory_channel[int | None](10)

    def handler(accepted: socket.socket, node_id: int | None) -> None:
        accepted.close()
        send.send_nowait(node_id)

    nursery.start_soon(listeners.serve, handler, lambda: True)
    for node_id, port in ports.items():
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        assert await receive.receive() == node_id
    nursery.cancel_scope.cancel()
    listeners.close()


async def test_a_port_in_use_is_named_and_the_other_ports_are_released():
    """The error is raised before any port accepts a client."""
    free = free_ports()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            Listeners("127.0.0.1", [(None, free), (0, port)])
    Listeners("127.0.0.1", [(None, free)]).close()


async def test_no_port_accepts_before_all_are_bound():
    """A client that reaches the bootstrap port is then sent to a node's port, which must accept too."""
    first, second = free_ports(), free_ports()

    def ports() -> Iterator[tuple[int | None, int]]:
        yield None, first
        assert not accepts("127.0.0.1", first)
        yield 1, second

    listeners = Listeners("127.0.0.1", ports())
    assert accepts("127.0.0.1", first)
    assert accepts("127.0.0.1", second)
    listeners.close()


async def test_the_same_port_can_be_bound_again_at_once():
    """Clients return to their cached addresses after a restart."""
    port = free_ports()
    for _ in range(3):
        Listeners("127.0.0.1", [(None, port)]).close()


class FakeListening:
    """A listener that raises the given errors, then accepts connections."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.accepts = 0
        self.readable, far = socket.socketpair()
        far.close()

    def fileno(self) -> int:
        return self.readable.fileno()

    async def accept(self):
        await trio.lowlevel.checkpoint()
        self.accepts += 1
        if self.errors:
            code = self.errors.pop(0)
            raise OSError(code, "as told")
        if self.accepts > 50:
            await trio.sleep_forever()
        pair = socket.socketpair()
        pair[1].close()
        return trio.socket.from_stdlib_socket(pair[0]), None

    def close(self) -> None:
        self.readable.close()


async def test_running_out_of_descriptors_pauses_accepting(autojump_clock, nursery):
    """Each refusal is reported and costs one pause; the next connection is accepted after it."""
    listeners = Listeners("127.0.0.1", [])
    fake = FakeListening(errno.EMFILE, errno.ENFILE, errno.ECONNABORTED)
    listeners._bound = [(None, fake)]
    arrived = trio.Event()

    def handler(accepted: socket.socket, node_id: int | None) -> None:
        accepted.close()
        arrived.set()

    told: list[str] = []
    began = trio.current_time()
    nursery.start_soon(listeners.serve, handler, lambda: True, told.append)
    await arrived.wait()
    assert trio.current_time() - began == pytest.approx(2 * PAUSE_S)
    assert told == ["as told"] * 2, "an aborted connection was reported as a lack of descriptors"
    nursery.cancel_scope.cancel()
    fake.close()


async def test_at_the_limit_new_clients_wait_in_the_backlog(autojump_clock, nursery):
    """No client is accepted while the limit is reached."""
    listeners = Listeners("127.0.0.1", [])
    fake = FakeListening()
    listeners._bound = [(None, fake)]
    full = True
    arrived = trio.Event()

    def handler(accepted: socket.socket, node_id: int | None) -> None:
        accepted.close()
        arrived.set()

    nursery.start_soon(listeners.serve, handler, lambda: not full)
    await trio.sleep(10)
    assert fake.accepts == 0
    full = False
    await arrived.wait()
    nursery.cancel_scope.cancel()
    fake.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - an address to listen at
async def test_a_connection_to_one_of_the_ports_is_recognised(address: str):
    """By whichever address of this machine; the same port of another address is another server's."""
    port = free_ports()
    listeners = Listeners(address, [(None, port)])
    reached = "::1" if address == "::" else "127.0.0.1"
    with socket.create_connection((reached, port)) as connected:
        assert listeners.is_peer_of(connected)
    listeners.close()
    with (
        socket.create_server(("127.0.0.9", port)) as other,
        socket.create_connection(("127.0.0.9", port)) as connected,
    ):
        other.accept()[0].close()
        assert listeners.is_peer_of(connected) == (address != "127.0.0.1")
    assert not listeners.is_peer_of(connected)
