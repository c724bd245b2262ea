"""What the driver steps: the base of the event loop."""

from __future__ import annotations


class Steppable:
    """Something that waits for events and handles them, step by step."""

    def __init__(self) -> None:
        self.arriving = 0  # clients that tasks of Trio connect
        self.called = 0  # 1: Trio may have an event (`trio_scheduler`); the driver sets it to 0

    def step(self, timeout_s: float) -> int:
        """Wait at most `timeout_s` for events and handle them. Returns how many events and turns were handled."""
        raise NotImplementedError
