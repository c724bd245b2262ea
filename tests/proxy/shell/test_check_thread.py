"""Passwords are verified in one thread, in order, and results come back to the event loop's own thread."""

import threading

import pytest
import trio

from proxy.core.auth.check_queue import MAX_WAITING
from proxy.core.auth.passwords import PasswordCheck
from proxy.core.auth.scram import MIN_ITERATIONS, SCRAM_SHA_256
from proxy.core.auth.stored_users import new_credential
from proxy.shell.check_thread import CheckThread

ALICE = new_credential(SCRAM_SHA_256, b"secret", b"salt", MIN_ITERATIONS)


def check_of(password: bytes) -> PasswordCheck:
    return PasswordCheck(SCRAM_SHA_256, password, b"salt", MIN_ITERATIONS, ALICE.stored_key)


async def test_results_come_in_order_and_each_wakes_the_loop(nursery: trio.Nursery) -> None:
    """Right and wrong passwords; the callback runs in the thread of the event loop."""
    said: list[tuple[bytes, bool, int]] = []
    woken: list[int] = []
    done = trio.Event()
    service = CheckThread(lambda: woken.append(len(said)), pytest.fail)
    for password in (b"secret", b"wrong", b"secret"):

        def tell(is_right: bool, password: bytes = password) -> None:  # noqa: FBT001 - the result
            said.append((password, is_right, threading.get_ident()))
            if len(said) == 3:
                done.set()

        assert service.submit(check_of(password), "a", tell)
    assert said == []
    nursery.start_soon(service.run)
    await done.wait()
    await trio.testing.wait_all_tasks_blocked()
    here = threading.get_ident()
    assert said == [(b"secret", True, here), (b"wrong", False, here), (b"secret", True, here)]
    assert woken == [1, 2, 3]


async def test_the_queue_is_bounded(nursery: trio.Nursery) -> None:
    """One check more than MAX_WAITING is refused, and taken later."""
    service = CheckThread(lambda: None, pytest.fail)
    taken = 0
    while service.submit(check_of(b""), "a", lambda _: None):
        taken += 1
    assert taken == MAX_WAITING
    done = trio.Event()
    service = CheckThread(done.set, pytest.fail)
    while service.submit(check_of(b""), "a", lambda _: None):
        pass
    nursery.start_soon(service.run)
    await done.wait()
    assert service.submit(check_of(b""), "a", lambda _: None)


async def test_a_flood_from_one_address_makes_room_for_others(nursery: trio.Nursery) -> None:
    """The check that loses its place is told in a later step, and the loop is woken; the others are done."""
    said: list[tuple[str, bool | None]] = []
    done = trio.Event()
    service = CheckThread(lambda: None, pytest.fail)
    for _ in range(MAX_WAITING):
        assert service.submit(check_of(b"wrong"), "flood", lambda r: said.append(("flood", r)))

    def tell(is_right: bool | None) -> None:  # noqa: FBT001 - the result
        said.append(("honest", is_right))
        done.set()

    assert service.submit(check_of(b"secret"), "honest", tell)
    assert said == []
    nursery.start_soon(service.run)
    await done.wait()
    assert said == [("flood", None), ("flood", False), ("honest", True)]


async def test_a_fault_of_one_session_does_not_stop_the_others(nursery: trio.Nursery) -> None:
    """It is reported, and the next check is done."""
    reported: list[Exception] = []
    done = trio.Event()
    service = CheckThread(lambda: None, reported.append)

    def fail(_: object) -> None:
        raise LookupError("bug")

    service.submit(check_of(b"1"), "a", fail)
    service.submit(check_of(b"2"), "a", lambda _: done.set())
    nursery.start_soon(service.run)
    await done.wait()
    assert [str(each) for each in reported] == ["bug"]
