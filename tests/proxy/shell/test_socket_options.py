"""The sockets of the event loop have the options that Sluice sets, and none that a library has left on them."""

import socket

import pytest

from bench.harness.ports import free_ports
from proxy.shell.dial import dial
from proxy.shell.dialer import Dialer
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


async def test_a_broker_that_is_dialled_without_a_task_has_the_same_options(bench):
    """Its socket is Sluice's own from the beginning."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        dialer = Dialer(bench.engine.topology, [broker.getsockname()], 5)
        direct = dialer.direct(None)
        assert direct is not None
        upstream = dialer.on_connected(direct, socket.create_connection(direct.route))
    assert options_set_on(upstream.transport._socket) == DIALLED
    upstream.close()


def test_an_accepted_client_has_the_options_of_its_listener(bench):
    """What the kernel keeps for a client is the system's choice: replies are larger than requests."""
    port = free_ports()
    listeners = Listeners("127.0.0.1", [(None, port)])
    accepted: list[socket.socket] = []
    listeners.start(
        bench.event_loop.endpoints, lambda each, *_: accepted.append(each), lambda: True
    )
    with socket.create_connection(("127.0.0.1", port)):
        bench.run()
    client = PlainTransport(accepted.pop(), has_options=True)
    assert options_set_on(client._socket) == PREPARED
    client.close()
    listeners.close()
