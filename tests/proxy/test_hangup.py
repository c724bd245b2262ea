"""SIGHUP before the proxy can heed it; tests/faults/test_full_log.py sees it in a real process."""

from __future__ import annotations

import signal

import pytest

from proxy import hangup


@pytest.fixture(autouse=True)
def as_before():
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_is_noted_once_and_ends_nothing():
    """However often it came: one look at the settings covers all."""
    hangup.note()
    assert not hangup.was_noted()
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert hangup.was_noted()
    assert not hangup.was_noted()
