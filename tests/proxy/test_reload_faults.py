"""Faults while a changed configuration is read or applied: a policy's, a bug of ours, a disk that does not answer."""

import threading
from importlib.metadata import EntryPoint

import pytest
import structlog
import trio
import trio.testing

from policies import discovery, registry
from policies.api import Policy
from policies.registry import PolicyEntry
from proxy.config.sections import LogSettings
from proxy.reload import Reloader
from tests.support.processes.admin_room import config_of, quota_entry, roomy


class OnceReadable(Policy):
    """Its interests can be read once."""

    Config = dict[str, object]
    closed = 0

    @property
    def apis(self) -> None:  # type: ignore[override]
        self.apis_reads = vars(self).get("apis_reads", 0) + 1
        if self.apis_reads > 1:
            raise RuntimeError("bug")

    def close(self) -> None:
        OnceReadable.closed += 1


@pytest.fixture
def once_readable(monkeypatch):
    """A configuration whose policy is OnceReadable."""
    point = EntryPoint("odd", f"{__name__}:OnceReadable", discovery.GROUP)
    find = discovery.entry_points_by_name
    monkeypatch.setattr(discovery, "entry_points_by_name", lambda: {**find(), "odd": point})
    monkeypatch.setattr(OnceReadable, "closed", 0)
    return config_of(policies=(PolicyEntry(use="odd"),))


@pytest.fixture(autouse=True)
def quiet_log():
    with structlog.testing.capture_logs():
        yield


async def test_a_policy_whose_interests_cannot_be_read_again_refuses_the_reload(once_readable):
    """It does not end the process, and the chain stays as it was."""
    with roomy(policies=(quota_entry(),)) as room:
        room.settings = once_readable
        result = await room.reloader.reload()
        assert result.problems == ("policy odd, interests: it raised RuntimeError",)
        assert [entry.name for entry in room.engine.chain.entries] == ["quota"]
        assert room.watcher.policy_errors == [("odd", "interests")]


async def test_a_bug_in_what_applies_a_setting_ends_no_process():
    """It is reported as ours."""
    with roomy() as room:
        settings = config_of(log=LogSettings(level="debug"))
        dynamic = {"log": lambda _: 1 // 0}
        reloader = Reloader(
            config_of(), lambda: settings, room.engine, room, room.watcher, dynamic, room.clock
        )
        result = await reloader.reload()
        assert result.problems == ("it cannot be applied: ZeroDivisionError",)
        assert [type(error) for error in room.watcher.internal] == [ZeroDivisionError]


async def test_a_cancelled_reload_does_not_wait_for_the_disk_and_closes_what_it_made(once_readable):
    """The next reload does not wait either."""
    reading, disk = threading.Event(), threading.Event()

    def load():
        if reading.is_set():
            return config_of()
        reading.set()
        registry.inspect(once_readable.policies, keep=True)
        disk.wait(60)
        return once_readable

    with roomy() as room:
        reloader = Reloader(config_of(), load, room.engine, room, room.watcher, {}, room.clock)
        async with trio.open_nursery() as reloading:
            reloading.start_soon(reloader.reload)
            await trio.to_thread.run_sync(reading.wait, 60)
            reloading.cancel_scope.cancel()
        assert (await reloader.reload()).ok
        assert OnceReadable.closed == 0
        disk.set()
        with trio.fail_after(60):
            while not OnceReadable.closed:  # noqa: ASYNC110 - the thread reads on
                await trio.sleep(0.01)
