"""Places for TLS handshakes: which client gets one, and which loses one."""

from contextlib import suppress

import pytest
import trio

from proxy.tls.places import CLIENT_WAIT_S, MIN_CLIENT_WAIT_S, Places


async def forever(_: object) -> None:
    await trio.sleep_forever()


async def stall(places: Places, address: str, lost: list[tuple[str, float]]) -> None:
    """Hold a place, and wait for a client that never answers, until the place is lost."""
    place = await places.take(address)
    try:
        with pytest.raises(ConnectionResetError):
            await places.wait(place, forever, None)
    finally:
        places.give_back(place)
    lost.append((address, trio.current_time()))


async def arrive(places: Places, address: str, got: list[tuple[str, float]]) -> None:
    """Take a place and give it back at once, as a client whose answers come at once."""
    place = await places.take(address)
    got.append((address, trio.current_time()))
    await trio.lowlevel.checkpoint()
    places.give_back(place)


@pytest.fixture
async def greedy(autojump_clock):
    """Four places, all held by one address for clients that never answer; 20 more of it wait."""
    places = Places(4)
    lost: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        for _ in range(24):
            nursery.start_soon(stall, places, "greedy", lost)
        await trio.testing.wait_all_tasks_blocked()
        yield places, lost
        nursery.cancel_scope.cancel()


async def test_the_next_place_goes_to_the_address_that_has_the_fewest(greedy, autojump_clock):
    """Honest clients pass all of another address that came before them, as soon as one place is free."""
    places, lost = greedy
    got: list[tuple[str, float]] = []
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(arrive, places, f"honest{number % 3}", got)
    assert len(got) == 6
    assert max(at_s for _, at_s in got) - began_s <= CLIENT_WAIT_S + 0.001
    assert len(lost) <= 4


async def test_a_long_line_moves_faster(autojump_clock):
    """When more wait than have a place, each may be waited for only a part of the time, but long enough to answer."""
    places = Places(4)
    lost: list[tuple[str, float]] = []
    began_s = trio.current_time()
    with trio.move_on_after(100):
        async with trio.open_nursery() as nursery:
            for _ in range(404):
                nursery.start_soon(stall, places, "one", lost)
            await trio.testing.wait_all_tasks_blocked()
            got: list[tuple[str, float]] = []
            await arrive(places, "one", got)
            nursery.cancel_scope.cancel()
    assert got[0][1] - began_s <= 1.5 * 404 / 4 * MIN_CLIENT_WAIT_S + CLIENT_WAIT_S
    assert min(at_s for _, at_s in lost) - began_s >= MIN_CLIENT_WAIT_S


async def test_a_client_that_drips_is_waited_for_no_longer_than_one_that_is_silent(autojump_clock):
    """Its time does not begin again with each byte; the time in which it waits for us does not count."""
    places = Places(1)
    lost_s: list[float] = []

    async def a_while(_: object) -> None:
        await trio.sleep(0.3)

    async def drip() -> None:
        place = await places.take("drip")
        with suppress(ConnectionResetError):
            for _ in range(100):
                await places.wait(place, a_while, None)
                await trio.sleep(0.2)  # our own work
        lost_s.append(trio.current_time())
        places.give_back(place)

    async with trio.open_nursery() as nursery:
        began_s = trio.current_time()
        nursery.start_soon(drip)
        await trio.testing.wait_all_tasks_blocked()
        await arrive(places, "other", [])
    assert lost_s[0] - began_s == pytest.approx(3 * (0.3 + 0.2) + 0.1, abs=0.01)


async def test_no_client_loses_a_place_that_no_other_wants(autojump_clock):
    """Not even when one has waited and has left."""
    places = Places(1)
    lost: list[tuple[str, float]] = []
    with trio.move_on_after(100) as all_of_it:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stall, places, "slow", lost)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(CLIENT_WAIT_S / 2):
                await arrive(places, "other", [])
    assert all_of_it.cancelled_caught
    assert not lost


async def test_a_place_that_is_granted_to_one_who_leaves_is_given_back(autojump_clock):
    """Granted and cancelled at the same moment, it goes to the next."""
    places = Places(1)
    held = await places.take("a")
    got: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        leaving = trio.CancelScope()

        async def leave() -> None:
            with leaving:
                await arrive(places, "b", [])

        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(arrive, places, "c", got)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        places.give_back(held)
    assert [address for address, _ in got] == ["c"]
    assert not places._taken
    assert not places._waiting
    assert not places._counts


async def test_a_raised_limit_serves_those_that_wait(autojump_clock):
    """At once; a lowered one takes no place away."""
    places = Places(1)
    held = await places.take("a")
    got: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrive, places, "b", got)
        await trio.testing.wait_all_tasks_blocked()
        assert not got
        places.limit(2)
    assert len(got) == 1
    places.limit(1)
    places.give_back(held)
