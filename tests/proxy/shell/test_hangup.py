"""SIGHUP before the proxy can handle it; tests/threats/test_t21_full_sinks.py tests it in a real process."""

import signal

import pytest

from proxy.shell import hangup


@pytest.fixture(autouse=True)
def as_before():
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_several_sighups_are_noted_once_and_do_not_end_the_process():
    """One reload covers all of them."""
    hangup.note()
    assert not hangup.was_noted()
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert hangup.was_noted()
    assert not hangup.was_noted()


def test_another_command_ends_by_a_sighup_that_came_early():
    """It is not obeyed twice, and one that comes later has its usual effect."""
    seen: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: seen.append(number))
    hangup.note()
    signal.raise_signal(signal.SIGHUP)
    assert seen == []
    hangup.obey()
    assert seen == [signal.SIGHUP]
    hangup.obey()
    assert seen == [signal.SIGHUP]
    signal.raise_signal(signal.SIGHUP)
    assert seen == [signal.SIGHUP] * 2
    assert not hangup.was_noted()


def test_a_command_without_a_note_keeps_its_handler():
    """Commands are also called by tests and other programs."""
    before = signal.getsignal(signal.SIGHUP)
    hangup.obey()
    assert signal.getsignal(signal.SIGHUP) is before
