"""The dialer over loopback: which broker is dialled, which is asked first, and what a failure reports."""

import errno
import os
import resource
import socket
import struct

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.core.topology import Topology
from proxy.shell import dialer as dialer_module
from proxy.shell.dialer import ASK_AGAIN_S, Dialer, DialError, dial
from tests.support import frames as f
from tests.support.sessions import Watcher


class FakeBroker:
    """Accepts, counts, and answers metadata questions (or closes, as a broker that wants SASL does)."""

    def __init__(self, brokers=(), *, answers: bool = True) -> None:
        self.brokers = list(brokers)
        self.answers = answers
        self.questions = 0
        self.connections = 0
        self.port = 0

    async def serve(self, task_status=trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._one, listeners, task_status=task_status)

    async def _one(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        async with stream:
            data = b""
            async for chunk in stream:
                data += chunk
                if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                    continue
                self.questions += 1
                if not self.answers:
                    return
                key, version, ident = struct.unpack_from(">hhi", data, 4)
                assert (key, version) == (f.METADATA, 1)
                await stream.send_all(f.metadata_reply(ident, self.brokers))
                data = b""


def topology() -> Topology:
    return Topology("127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(2)}, Watcher())


async def test_a_known_node_is_dialled_without_a_metadata_question(nursery):
    """Its address was learnt from a client's metadata reply."""
    broker = FakeBroker()
    await nursery.start(broker.serve)
    known = topology()
    known.learn({1: (b"127.0.0.1", broker.port)})
    (await Dialer(known, [("127.0.0.1", free_ports())], 5).reach(1)).close()
    assert broker.questions == 0


async def test_the_address_of_an_unknown_node_is_asked_of_a_bootstrap_broker_first(nursery):
    """Five dials at once ask one question: clients keep cached addresses and return to node ports first."""
    node = FakeBroker()
    await nursery.start(node.serve)
    bootstrap = FakeBroker([(0, "127.0.0.1", 1), (1, "127.0.0.1", node.port)])
    await nursery.start(bootstrap.serve)
    learning = topology()
    dialer = Dialer(learning, [("127.0.0.1", bootstrap.port)], 5)
    async with trio.open_nursery() as at_once:
        for _ in range(5):
            at_once.start_soon(_reach_and_close, dialer, 1)
    assert bootstrap.questions == 1
    assert learning.address_of(1) == ("127.0.0.1", node.port)


async def _reach_and_close(dialer: Dialer, node_id: int) -> None:
    (await dialer.reach(node_id)).close()


async def test_the_next_bootstrap_broker_is_asked_when_one_is_down(nursery, monkeypatch):
    """Later dials begin with the broker that answered."""
    node = FakeBroker()
    await nursery.start(node.serve)
    bootstrap = FakeBroker([(1, "127.0.0.1", node.port)])
    await nursery.start(bootstrap.serve)
    servers = [("127.0.0.1", free_ports()), ("127.0.0.1", bootstrap.port)]
    (await Dialer(topology(), servers, 5).reach(1)).close()
    dialled: list[tuple[str, int]] = []

    async def noted(host: str, port: int, *others):
        dialled.append((host, port))
        return await dial(host, port, *others)

    monkeypatch.setattr(dialer_module, "dial", noted)
    dialer = Dialer(topology(), servers, 5)
    (await dialer.reach(None)).close()
    (await dialer.reach(None)).close()
    assert dialled == [*servers, servers[1]]


async def test_a_cluster_that_wants_authentication_gets_the_client_at_a_bootstrap_broker(nursery):
    """Only the client can authenticate; the broker's own errors will send it to the right node."""
    bootstrap = FakeBroker(answers=False)
    await nursery.start(bootstrap.serve)
    (await Dialer(topology(), [("127.0.0.1", bootstrap.port)], 5).reach(1)).close()
    assert bootstrap.connections == 2


async def test_a_node_that_the_cluster_does_not_know_is_an_unknown_node(nursery, mock_clock):
    """The dial fails with UNKNOWN_NODE; the question is repeated after ASK_AGAIN_S only."""
    bootstrap = FakeBroker([(0, "127.0.0.1", 1)])
    await nursery.start(bootstrap.serve)
    dialer = Dialer(topology(), [("127.0.0.1", bootstrap.port)], 5000)
    for _ in range(3):
        with pytest.raises(DialError) as caught:
            await dialer.reach(1)
        assert caught.value.reason is CloseReason.UNKNOWN_NODE
    assert bootstrap.questions == 1
    mock_clock.jump(ASK_AGAIN_S)
    with pytest.raises(DialError):
        await dialer.reach(1)
    assert bootstrap.questions == 2


async def test_a_broker_that_moved_is_found_again(nursery):
    """Its old address refuses; a bootstrap broker knows the new one."""
    node = FakeBroker()
    await nursery.start(node.serve)
    bootstrap = FakeBroker([(1, "127.0.0.1", node.port)])
    await nursery.start(bootstrap.serve)
    moved = topology()
    moved.learn({1: (b"127.0.0.1", free_ports())})
    (await Dialer(moved, [("127.0.0.1", bootstrap.port)], 5).reach(1)).close()
    assert moved.address_of(1) == ("127.0.0.1", node.port)


async def test_a_refused_dial_says_where_and_why():
    """The error names the address; its reason is UPSTREAM_REFUSED."""
    port = free_ports()
    with pytest.raises(DialError, match=f"127.0.0.1:{port}") as caught:
        await dial("127.0.0.1", port, 5)
    assert caught.value.reason is CloseReason.UPSTREAM_REFUSED


async def test_a_lack_of_descriptors_is_not_reported_as_a_refusal_of_the_broker():
    """The reason is FILE_DESCRIPTORS_EXHAUSTED, because the fault is in this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as broker:
        lowest_free = os.dup(broker.fileno())
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            with pytest.raises(DialError, match=os.strerror(errno.EMFILE)) as failed:
                await dial(*broker.getsockname(), 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert failed.value.reason is CloseReason.FILE_DESCRIPTORS_EXHAUSTED


async def test_a_dial_that_takes_too_long_is_given_up(autojump_clock, monkeypatch):
    """The reason is UPSTREAM_DIAL_TIMEOUT; the test runs in virtual time."""

    async def never(host: str, port: int) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", never)
    with pytest.raises(DialError) as caught:
        await dial("10.255.255.1", 9092, 3)
    assert caught.value.reason is CloseReason.UPSTREAM_DIAL_TIMEOUT


async def test_a_broker_with_an_address_of_our_own_is_not_dialled(nursery):
    """Each such connection would be another client, which dials again."""
    broker = FakeBroker()
    await nursery.start(broker.serve)
    dialer = Dialer(topology(), [("127.0.0.1", broker.port)], 5)
    dialer.is_own = lambda connected: connected.getpeername()[1] == broker.port
    with pytest.raises(DialError, match=f"127.0.0.1:{broker.port} is a port of Sluice itself"):
        await dialer.reach(None)
    dialer.is_own = lambda _: False
    (await dialer.reach(None)).close()
