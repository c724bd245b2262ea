"""Counts how often a task lets other tasks run."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class TaskSteps(trio.abc.Instrument):
    """Counts how often Trio resumes one task: once for each checkpoint, however Trio shuffles its tasks."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.count = 0
        self._task = task

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


@contextmanager
def task_steps() -> Iterator[TaskSteps]:
    """Counts the steps of the current task for as long as the block runs."""
    steps = TaskSteps(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
