"""A configuration file in a volume of Kubernetes, which the kubelet updates by swapping the link `..data`.

Rules:
- The link is read every POLL_S seconds. If it leads elsewhere, all files of the volume are new and complete.
- A file outside such a volume is not watched, because an editor may have written only a part of it.
- A single file that is mounted with `subPath` has no such link; Kubernetes never updates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLL_S: Final = 5.0
LINK: Final = "..data"


class ConfigVolume:
    """The volume of `file`, which is None if all settings are variables. Make it before the file is read."""

    def __init__(self, file: Path | None) -> None:
        self._link = None if file is None else file.absolute().parent / LINK
        self._seen = self._target()

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after each swap of the link, until cancelled; return at once without a link."""
        while self._seen:
            target = self._target()  # of a local file system, so it is read without a thread
            if target and target != self._seen:
                self._seen = target
                on_change()
            await trio.sleep(POLL_S)

    def _target(self) -> str:
        """Return what the link leads to; "" if there is none."""
        try:
            return "" if self._link is None else str(self._link.readlink())
        except OSError:
            return ""
