"""Changes that an operator makes to a running policy, over the admin server or by `sluice ctl policy`.

A policy takes them if it has the two methods of TakesLiveChanges. They last until the process ends; to keep them over
a reload, `adopt` them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping


@runtime_checkable
class TakesLiveChanges(Protocol):
    """A policy that an operator can change while it runs."""

    def live_state(self) -> Mapping[str, object]:
        """Return what the operator sees: names and values that msgspec encodes as JSON."""

    def change_live(self, change: Mapping[str, object], now_ms: int) -> None:
        """Apply a change: a JSON object, as the operator sent it, at `now_ms`.

        Raises PolicyConfigError with the key at fault; then nothing has changed.
        """
