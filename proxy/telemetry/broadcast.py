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
        self._hooks: dict[str, list[Callable[..., None]]] = {}
        for name in vars(Observer):
            if name.startswith("on_"):
                hooks = self._hooks[name] = []
                setattr(self, name, self._joined(hooks))
        self.add(observers)

    def add(self, observers: Sequence[Observer]) -> None:
        """Add observers after the others; they are called from now on."""
        self.receives_audit = self.receives_audit or any(each.receives_audit for each in observers)
        for name, hooks in self._hooks.items():
            hooks.extend(getattr(each, name) for each in observers if _overrides(each, name))

    def _joined(self, hooks: Sequence[Callable[..., None]]) -> Callable[..., None]:
        def call(*args: object) -> None:
            for hook in hooks:
                try:
                    hook(*args)
                except Exception as error:  # noqa: BLE001 - a bug of an observer must not end the session
                    self._first.on_internal_error(error)

        return call


def _overrides(observer: Observer, name: str) -> bool:
    return getattr(type(observer), name) is not getattr(Observer, name)
