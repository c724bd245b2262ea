"""Passwords are verified in one thread, in order, and results come back to the event loop's own thread."""

import threading

import pytest
import trio

from proxy.core.auth.passwords import PasswordCheck
from proxy.core.auth.scram import MIN_ITERATIONS, SCRAM_SHA_256
from proxy.core.auth.stored_users import new_credential
from proxy.shell.password_thread import MAX_WAITING, PasswordThread

ALICE = new_credential(SCRAM_SHA_256, b"secret", b"salt", MIN_ITERATIONS)


def check_of(password: bytes) -> PasswordCheck:
    return PasswordCheck(SCRAM_SHA_256, password, b"salt", MIN_ITERATIONS, ALICE.stored_key)


async def test_results_come_in_order_and_each_wakes_the_loop(nursery: trio.Nursery) -> None:
    """Right and wrong passwords; the callback runs in the thread of the event loop."""
    said: list[tuple[bytes, bool, int]] = []
    woken: list[int] = []
    done = trio.Event()
    service = PasswordThread(lambda: woken.append(len(said)), pytest.fail)
    for password in (b"secret", b"wrong", b"secret"):

        def tell(is_right: bool, password: bytes = password) -> None:  # noqa: FBT001 - the result
            said.append((password, is_right, threading.get_ident()))
            if len(said) == 3:
                done.set()

        assert service.submit(check_of(password), tell)
    assert said == []
    nursery.start_soon(service.run)
    await done.wait()
    await trio.testing.wait_all_tasks_blocked()
    here = threading.get_ident()
    assert said == [(b"secret", True, here), (b"wrong", False, here), (b"secret", True, here)]
    assert woken == [1, 2, 3]


async def test_the_queue_is_bounded(nursery: trio.Nursery) -> None:
    """One check more than MAX_WAITING is refused, and taken later."""
    service = PasswordThread(lambda: None, pytest.fail)
    taken = 0
    while service.submit(check_of(b""), lambda _: None):
        taken += 1
    assert taken == MAX_WAITING
    done = trio.Event()
    service = PasswordThread(done.set, pytest.fail)
    while service.submit(check_of(b""), lambda _: None):
        pass
    nursery.start_soon(service.run)
    await done.wait()
    assert service.submit(check_of(b""), lambda _: None)


async def test_a_fault_of_one_session_does_not_stop_the_others(nursery: trio.Nursery) -> None:
    """It is reported, and the next check is done."""
    reported: list[Exception] = []
    done = trio.Event()
    service = PasswordThread(lambda: None, reported.append)

    def fail(_: object) -> None:
        raise LookupError("bug")

    service.submit(check_of(b"1"), fail)
    service.submit(check_of(b"2"), lambda _: done.set())
    nursery.start_soon(service.run)
    await done.wait()
    assert [str(each) for each in reported] == ["bug"]
