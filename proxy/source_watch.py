"""The sources of plug-ins, watched for `sluice run --dev`: a change of a file starts a reload.

- The files are those of the last configuration that was applied (`policies.registry.digests`), so also those that a
  policy reads. They are looked at every POLL_S seconds; a change is reloaded once they rest.
- A file that cannot be imported fails the reload: the old policies stay, and the log has the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from policies.plugin_sources import SOURCES
from proxy.config_volume import ConfigVolume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

POLL_S: Final = 0.25


class SourceWatch(ConfigVolume):
    """Watches what a ConfigVolume watches, and every file that policies come from or read."""

    def __init__(self, file: Path | None) -> None:
        super().__init__(file)
        SOURCES.follow()

    async def watch(
        self, on_change: Callable[[], None], others: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """Call `on_change` after each swap of a link and each change of a file, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().watch, on_change, others)
            nursery.start_soon(self._watch_files, on_change, others)

    async def _watch_files(
        self, on_change: Callable[[], None], others: Callable[[], Iterable[str]]
    ) -> None:
        seen = _states(others())
        changed = False
        while True:
            await trio.sleep(POLL_S)
            found = _states(others())
            rests = all(seen.get(path, state) == state for path, state in found.items())
            changed = changed or not rests
            if changed and rests:
                changed = False
                on_change()
            seen = found


def _states(paths: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of each file; zeros for one that is gone."""
    found: dict[str, tuple[int, int, int]] = {}
    for path in paths:
        try:
            said = Path(path).stat()
        except OSError:
            found[path] = (0, 0, 0)
        else:
            found[path] = (said.st_ino, said.st_size, said.st_mtime_ns)
    return found
