"""The dump of tasks: grouped by the place where they wait, bounded, without any client's data."""

import msgspec
import trio

from proxy.admin.tasks import LISTED, dump_tasks, stack_of


async def waits(secret: str) -> None:
    await inner(secret)


async def inner(secret: str) -> None:
    await trio.sleep_forever()


async def test_tasks_that_wait_at_the_same_place_are_one_group(nursery):
    """A group has its call stack, the innermost call last."""
    for _ in range(30):
        nursery.start_soon(waits, "hunter2")
    await trio.testing.wait_all_tasks_blocked()
    said = dump_tasks(5)
    (group,) = [each for each in said.groups if each.count == 30]
    assert group.names == [f"{waits.__module__}.waits"]
    places = [place.rpartition(" ")[2] for place in group.stack]
    assert places[:3] == ["waits", "inner", "sleep_forever"]
    assert said.ts_ms == 5
    assert b"hunter2" not in msgspec.json.encode(said)
    nursery.cancel_scope.cancel()


async def test_tasks_over_the_limit_are_counted_only(nursery):
    """A dump must not stop the event loop, however many tasks there are."""
    for _ in range(5 * LISTED):
        nursery.start_soon(waits, "")
    await trio.testing.wait_all_tasks_blocked()
    said = dump_tasks(0)
    assert said.listed == LISTED
    assert said.total > 5 * LISTED
    assert sum(group.count for group in said.groups) == LISTED
    nursery.cancel_scope.cancel()


async def test_the_running_task_has_its_outermost_call_only():
    """A running task has no place where it waits."""
    (place,) = stack_of(trio.lowlevel.current_task())
    assert ".py:" in place
