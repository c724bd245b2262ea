"""Several listeners where the core knows one: each is told, in the order given.

A listener that raises is a bug, and must not cost a session: it is told of as an internal error, to those
before it (the first one writes the log).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Broadcast(Observer):
    """See the module."""

    def __init__(self, listeners: Sequence[Observer]) -> None:
        self._first = listeners[0]
        self._heard: dict[str, list[Callable[..., None]]] = {}
        for name in vars(Observer):
            if name.startswith("on_"):
                heard = self._heard[name] = []
                vars(self)[name] = self._joined(heard)
        self.add(listeners)

    def add(self, listeners: Sequence[Observer]) -> None:
        """These hear from now on as well, behind all others."""
        self.hears_audit = self.hears_audit or any(each.hears_audit for each in listeners)
        for name, heard in self._heard.items():
            heard.extend(getattr(each, name) for each in listeners if _overrides(each, name))

    def _joined(self, hooks: Sequence[Callable[..., None]]) -> Callable[..., None]:
        def tell(*args: object) -> None:
            for hook in hooks:
                try:
                    hook(*args)
                except Exception as error:  # noqa: BLE001 - a listener's bug is not the client's
                    self._first.on_internal_error(error)

        return tell


def _overrides(listener: Observer, name: str) -> bool:
    return getattr(type(listener), name) is not getattr(Observer, name)
