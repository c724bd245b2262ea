"""The dialer where bootstrap brokers answer only authenticated clients: who is dialled in a node's place."""

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.shell.dial import DialError
from proxy.shell.dialer import SCOUT_S, Dialer
from tests.support.shell.fake_brokers import FakeBroker, reach_and_close, topology


async def test_a_broker_that_stands_in_is_marked_so_that_it_is_asked_later(nursery):
    """The route of a node that is dialled itself needs no question."""
    bootstrap, node = FakeBroker(answers=False), FakeBroker()
    await nursery.start(bootstrap.serve)
    await nursery.start(node.serve)
    learning = topology()
    dialer = Dialer(learning, [("127.0.0.1", bootstrap.port)], 5)
    in_place = await dialer.reach(1)
    assert (in_place.confirmed, in_place.route) == (False, ("127.0.0.1", bootstrap.port))
    learning.learn({1: (b"127.0.0.1", node.port)})
    itself = await dialer.reach(1)
    assert (itself.confirmed, itself.route) == (True, ("127.0.0.1", node.port))
    in_place.close()
    itself.close()


async def _until_waiting(dialer: Dialer, count: int) -> None:
    """Return when so many clients wait for the one that went ahead."""
    while dialer._learned.statistics().tasks_waiting < count:
        await trio.lowlevel.checkpoint()


async def test_others_wait_for_what_is_learnt_from_the_client_that_went_ahead(nursery, mock_clock):
    """So a restart leads one client to the wrong broker, and not all of them."""
    bootstrap, node = FakeBroker(answers=False), FakeBroker()
    await nursery.start(bootstrap.serve)
    await nursery.start(node.serve)
    learning = topology()
    dialer = Dialer(learning, [("127.0.0.1", bootstrap.port)], 5)
    (await dialer.reach(1)).close()
    led: list[tuple[str, int]] = []

    async def follow() -> None:
        broker = await dialer.reach(1)
        led.append(broker.route)
        broker.close()

    async with trio.open_nursery() as at_once:
        for _ in range(10):
            at_once.start_soon(follow)
        await _until_waiting(dialer, 10)
        assert led == []
        learning.learn({1: (b"127.0.0.1", node.port)})
    assert led == [("127.0.0.1", node.port)] * 10


async def test_a_client_that_never_authenticates_delays_the_others_once(nursery, mock_clock):
    """After SCOUT_S they go ahead themselves."""
    bootstrap = FakeBroker(answers=False)
    await nursery.start(bootstrap.serve)
    dialer = Dialer(topology(), [("127.0.0.1", bootstrap.port)], 5)
    silent = await dialer.reach(1)
    async with trio.open_nursery() as others:
        others.start_soon(reach_and_close, dialer, 1)
        await _until_waiting(dialer, 1)
        mock_clock.jump(SCOUT_S)
    silent.close()
    assert bootstrap.questions == 1  # of the first; the second came within half a second


async def test_a_dead_address_that_cannot_be_asked_for_behaves_as_an_unknown_one(
    nursery, mock_clock
):
    """All brokers may have moved; but one client each half second is enough to find out that the node is down."""
    bootstrap = FakeBroker(answers=False)
    await nursery.start(bootstrap.serve)
    moved = topology()
    moved.learn({1: (b"127.0.0.1", free_ports())})
    dialer = Dialer(moved, [("127.0.0.1", bootstrap.port)], 5)
    in_place = await dialer.reach(1)
    assert not in_place.confirmed
    with pytest.raises(DialError) as refused:
        await dialer.reach(1)
    assert refused.value.reason is CloseReason.UPSTREAM_REFUSED
    mock_clock.jump(SCOUT_S)
    again = await dialer.reach(1)
    assert not again.confirmed
    in_place.close()
    again.close()


async def test_an_unknown_node_is_refused_if_no_bootstrap_broker_answers():
    """As a known one is whose broker is down: no other broker would do."""
    port = free_ports()
    with pytest.raises(DialError, match=f"127.0.0.1:{port}") as refused:
        await Dialer(topology(), [("127.0.0.1", port)], 5).reach(1)
    assert refused.value.reason is CloseReason.UPSTREAM_REFUSED
