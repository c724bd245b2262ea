"""Files whose change starts a reload: those in volumes of Kubernetes, and with `sluice run --dev` those of plug-ins.

Rules:
- The kubelet updates a volume by swapping the link `..data` of its folder. The links are read every POLL_S seconds. If
  one leads elsewhere, all files of its volume are new and complete.
- A file outside such a volume is not watched, because an editor may have written only a part of it.
- A single file that is mounted with `subPath` has no such link; Kubernetes never updates it.
- Besides the configuration, the files that policies read are watched. The first look at a volume of theirs counts as a
  swap: there may have been one since the file was read.
- With `--dev` the files are those of the last configuration that was applied (`policies.registry.digests`). A change is
  reloaded once they rest. A file that cannot be imported fails the reload: the old policies stay, and the log has the
  reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from policies.plugin_sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


POLL_S: Final = 5.0
LINK: Final = "..data"
SOURCE_POLL_S: Final = 0.25
"""Between two looks at the files of plug-ins."""


class ConfigVolume:
    """The volume of `file`, which is None if all settings are variables. Make it before the file is read."""

    def __init__(self, file: Path | None) -> None:
        self._seen: dict[Path, str] = {}
        if file is not None:
            link = _link_beside(file)
            self._seen[link] = _target(link)
        self._own = list(self._seen)

    async def watch(
        self, on_change: Callable[[], None], others: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """Call `on_change` after each swap of a link, until cancelled.

        `others` returns the paths of further files that are in use.
        """
        while True:
            # Of local file systems, so they are read without a thread.
            found = {link: _target(link) for link in self._links(others())}
            swapped = [link for link, target in found.items() if target != self._seen.get(link, "")]
            self._seen = {
                link: target or self._seen.get(link, "") for link, target in found.items()
            }
            if any(found[link] for link in swapped):
                on_change()
            await trio.sleep(POLL_S)

    def _links(self, others: Iterable[str]) -> Iterable[Path]:
        return dict.fromkeys((*self._own, *(_link_beside(Path(each)) for each in others)))


def _link_beside(file: Path) -> Path:
    return file.absolute().parent / LINK


def _target(link: Path) -> str:
    """Return the path that the link has; "" if there is none."""
    try:
        return str(link.readlink())
    except (OSError, ValueError):
        return ""


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
            await trio.sleep(SOURCE_POLL_S)
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
