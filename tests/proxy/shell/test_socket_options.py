"""The sockets of the event loop have the options that Sluice sets, and none that a library has left on them."""

import socket

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.shell.dial import dial
from proxy.shell.listeners import Listeners
from proxy.shell.transport import PlainTransport
from tests.support.shell.sockets import DIALLED, PREPARED, options_set_on

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no limit of unsent bytes"
)


async def test_a_dialled_broker_keeps_a_mebibyte_unsent_and_no_option_of_trio():
    """A stream of Trio sets 16 KiB: the kernel would take only part of each larger request."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        dialled = await dial("localhost", broker.getsockname()[1], 5)
    assert isinstance(dialled, PlainTransport)
    assert options_set_on(dialled._socket) == DIALLED
    dialled.close()


async def test_an_accepted_client_has_the_options_of_its_listener(nursery):
    """What the kernel keeps for a client is the system's choice: replies are larger than requests."""
    port = free_ports()
    listeners = Listeners("127.0.0.1", [(None, port)])
    send, receive = trio.open_memory_channel[socket.socket](1)
    nursery.start_soon(
        listeners.serve, lambda accepted, _: send.send_nowait(accepted), lambda: True
    )
    with socket.create_connection(("127.0.0.1", port)):
        client = PlainTransport(await receive.receive())
    assert options_set_on(client._socket) == PREPARED
    client.close()
    nursery.cancel_scope.cancel()
    listeners.close()
