"""One observer that calls several, in the order given.

An exception in an observer is a bug and must not end a session: it goes to the first observer, which writes the log,
as an internal error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Broadcast(Observer):
    """Calls each hook of the core on every observer that overrides it."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._first = observers[0]
        self._heard: dict[str, list[Callable[..., None]]] = {}
        for name in vars(Observer):
            if name.startswith("on_"):
                heard = self._heard[name] = []
                setattr(self, name, self._joined(heard))
        self.add(observers)

    def add(self, observers: Sequence[Observer]) -> None:
        """Add observers after the others; they are called from now on."""
        self.hears_audit = self.hears_audit or any(each.hears_audit for each in observers)
        for name, heard in self._heard.items():
            heard.extend(getattr(each, name) for each in observers if _overrides(each, name))

    def _joined(self, hooks: Sequence[Callable[..., None]]) -> Callable[..., None]:
        def tell(*args: object) -> None:
            for hook in hooks:
                try:
                    hook(*args)
                except Exception as error:  # noqa: BLE001 - a bug of an observer must not end the session
                    self._first.on_internal_error(error)

        return tell


def _overrides(observer: Observer, name: str) -> bool:
    return getattr(type(observer), name) is not getattr(Observer, name)
