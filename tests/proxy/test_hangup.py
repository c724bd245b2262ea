"""SIGHUP before the proxy can handle it; tests/threats/test_t21_full_sinks.py tests it in a real process."""

import signal

import pytest

from proxy import hangup


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
