"""The dialer over loopback: which broker is dialled, which is asked first, and what a failure reports."""

import errno
import os
import resource
import socket

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.shell import dialer as dialer_module
from proxy.shell.dial import DialError, dial
from proxy.shell.dialer import ASK_AGAIN_S, Dialer
from tests.support.shell.fake_brokers import FakeBroker, reach_and_close, topology


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
            at_once.start_soon(reach_and_close, dialer, 1)
    assert bootstrap.questions == 1
    assert learning.address_of(1) == ("127.0.0.1", node.port)


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


async def test_a_broker_with_an_address_of_our_own_is_not_dialled(nursery):
    """Each such connection would be another client, which dials again."""
    broker = FakeBroker()
    await nursery.start(broker.serve)
    dialer = Dialer(topology(), [("127.0.0.1", broker.port)], 5)
    dialer.is_own = lambda _, port: port == broker.port
    with pytest.raises(DialError, match=f"127.0.0.1:{broker.port} is a port of Sluice itself"):
        await dialer.reach(None)
    dialer.is_own = lambda _, _port: False
    (await dialer.reach(None)).close()


async def test_a_node_that_moves_during_its_dial_is_dialled_again(nursery, monkeypatch):
    """Nothing was sent to the first address yet."""
    old, new = FakeBroker(), FakeBroker()
    await nursery.start(old.serve)
    await nursery.start(new.serve)
    moving = topology()
    moving.learn({1: (b"127.0.0.1", old.port)})

    async def slow(host: str, port: int, *others):
        dialled = await dial(host, port, *others)
        moving.learn({1: (b"127.0.0.1", new.port)})
        return dialled

    monkeypatch.setattr(dialer_module, "dial", slow)
    broker = await Dialer(moving, [], 5).reach(1)
    assert broker.route == ("127.0.0.1", new.port)
    broker.close()


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
