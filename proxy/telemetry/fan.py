"""Several listeners where the core knows one: each is told, in the order given.

A listener that raises is a bug, and must not cost a session: it is told of as an internal error, to those
before it (the first one writes the log).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Fan(Observer):
    """See the module."""

    def __init__(self, listeners: Sequence[Observer]) -> None:
        self._first = listeners[0]
        for name in vars(Observer):
            if name.startswith("on_"):
                heard = [getattr(each, name) for each in listeners if _overrides(each, name)]
                vars(self)[name] = self._joined(heard)

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
