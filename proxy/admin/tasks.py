"""The tasks of the event loop, grouped by the place where they wait.

Rules:
- Places only: no arguments and no local variables, which may hold a client's bytes.
- At most LISTED tasks are walked; the others are only counted.
"""

from __future__ import annotations

from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING

import trio

from proxy.admin.schemas import TaskGroup, TaskList

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED = 200
MAX_COUNTED = 100_000
MAX_FRAMES = 64
MAX_NAMES = 10


def dump_tasks(ts_ms: int) -> TaskList:
    """Return the groups at this moment. Called on the loop."""
    root = trio.lowlevel.current_root_task()
    groups: dict[tuple[str, ...], list[str]] = {}
    found = _below(root) if root is not None else iter(())
    listed = 0
    for task in islice(found, LISTED):
        listed += 1
        groups.setdefault(tuple(stack_of(task)), []).append(task.name)
    statistics = trio.lowlevel.current_statistics()
    return TaskList(
        ts_ms,
        statistics.tasks_living,
        listed,
        statistics.tasks_runnable,
        [
            TaskGroup(len(names), sorted(set(names))[:MAX_NAMES], list(stack))
            for stack, names in sorted(groups.items(), key=lambda each: -len(each[1]))
        ],
    )


def stack_of(task: trio.lowlevel.Task) -> list[str]:
    """Return the place where a task waits, as lines `file:line function`, the innermost last."""
    stack: list[str] = []
    awaited: object = task.coro
    while awaited is not None and len(stack) < MAX_FRAMES:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            place = "/".join(PurePath(code.co_filename).parts[-3:])
            stack.append(f"{place}:{frame.f_lineno} {code.co_name}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return stack


def _below(root: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """Yield a task and all its children, the nearest first."""
    waiting = [root]
    for task in waiting:
        yield task
        if len(waiting) < MAX_COUNTED:
            for nursery in task.child_nurseries:
                waiting += nursery.child_tasks
