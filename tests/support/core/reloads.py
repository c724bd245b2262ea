"""A proxy that is reloaded again and again, and the objects that are in memory after it."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from proxy.config import Config
from proxy.config.sources import load
from proxy.policy_host.retired_policies import CHECK_MS
from proxy.reload import ReloadResult
from tests.support.processes.admin_room import AdminRoom

STRAY_OBJECTS = 20
"""Objects that threads, logs and the counting itself may keep, of any type: one object in fifty reloads."""


class Reloads:
    """A proxy without ports, whose configuration file a test writes."""

    def __init__(self, folder: Path, settings: Callable[[int, Path], dict[str, object]]) -> None:
        self.folder = folder
        self._settings = settings
        self._file = folder / "sluice.yaml"
        self._n = 0
        self._write()
        self.room = AdminRoom(self._load())
        self.reloader = self.room.reloader

    def _write(self) -> None:
        self._file.write_text(yaml.safe_dump(self._settings(self._n, self.folder)))

    def _load(self) -> Config:
        return load(self._file, {}, {}, keep_policies=True).config

    async def _reload(self) -> ReloadResult:
        try:
            self.room.settings = self._load()
        except Exception as error:  # noqa: BLE001 - a wrong file is a refusal of the reload
            self.room.settings = error
        return await self.reloader.reload()

    async def make(self, count: int) -> None:
        """Reload so often, each time with other settings, and let CHECK_MS pass after each."""
        for _ in range(count):
            self._n += 1
            self._write()
            result = await self._reload()
            assert result.ok, result
            self.pass_ms(CHECK_MS)

    async def refuse(self) -> None:
        """Try a configuration whose policies are made, and which is refused then."""
        written = self._file.read_text()
        self._file.write_text(written.replace("0-3", "0-2"))
        assert not (await self._reload()).ok
        self._file.write_text(written.replace("kafka:9092", "[]"))
        assert not (await self._reload()).ok
        self.pass_ms(CHECK_MS)

    def pass_ms(self, time_ms: int) -> None:
        """Fire the timers of this time; no second is counted, whose figures are kept for a while."""
        engine = self.room.engine
        engine.now_ms = max(engine.now_ms, self.room.clock()) + time_ms
        engine.timers.advance(engine.now_ms)


@contextmanager
def without_collector() -> Iterator[None]:
    """Objects in cycles stay in memory, unless the proxy itself collects them."""
    gc.collect()
    gc.freeze()  # as at the start of the proxy: the tests' own objects are not looked at
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        gc.garbage.clear()


def counted() -> Counter[str]:
    """Return the number of objects by type, those in cycles included, and of all blocks of memory."""
    gc.set_debug(gc.DEBUG_SAVEALL)  # what it finds is kept
    gc.collect()  # it also empties Python's lists of free objects
    gc.set_debug(0)
    found = Counter(
        f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
    )
    found["blocks of memory, in hundreds"] = sys.getallocatedblocks() // 100
    return found


def grown(before: Counter[str]) -> dict[str, int]:
    """Return what has become more, by more than stray objects."""
    more = counted() - before
    return {kind: count for kind, count in more.items() if count > STRAY_OBJECTS}
