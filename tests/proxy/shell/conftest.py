"""Fixtures of the tests of the event loop."""

import pytest

from proxy.shell import event_loop


@pytest.fixture
def one_event_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each step the time for one event."""
    monkeypatch.setattr(event_loop, "STEP_BYTES", 1)
    monkeypatch.setattr(event_loop, "SLICE_BYTES", 0)
    monkeypatch.setattr(event_loop, "SLICE_EVENTS", 1)
