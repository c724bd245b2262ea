"""The source files of installed policies, followed while their author changes them (`sluice run --dev`).

- A package whose files have changed is imported again, as new modules: a policy that runs keeps its old ones. If the
  import fails, the old modules stay, and the error says why.
- A module is a cycle: its functions refer to it. So an old one stays in memory until the collector has found it.
- Sluice's own modules are never imported again.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from importlib import invalidate_caches
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


_replaced: Final[list[ref[ModuleType]]] = []


def note_replaced(module: ModuleType) -> None:
    """Note that no configuration will use this module again."""
    _replaced.append(ref(module))


def any_left() -> bool:
    """Return whether a replaced module is still in memory: a policy that serves may have come from it."""
    for each in tuple(_replaced):  # a thread may add another one
        if each() is None:
            _replaced.remove(each)
    return bool(_replaced)


_OWN: Final = frozenset({"policies", "proxy", "sluice", "wire"})


class PluginSources:
    """Loads classes by `load`; once `follow` was called, again after a change of their package."""

    def __init__(self) -> None:
        self._follows = False
        self._known: dict[str, dict[str, str]] = {}

    def follow(self) -> None:
        """Follow changes from now on."""
        self._follows = True
        sys.dont_write_bytecode = True  # two changes in one second would give one file of bytecode

    def load(self, module: str, load: Callable[[], object]) -> object:
        """Return what `load` imports from `module`; raises its exceptions, and keeps the old modules then."""
        top = module.partition(".")[0]
        if not self._follows or top in _OWN:
            return load()
        before = _modules_of(top)
        is_changed = top in self._known and self.digests(module) != self._known[top]
        if is_changed:
            for name in before:
                del sys.modules[name]
            invalidate_caches()
        try:
            found = load()
        except BaseException:
            for name in _modules_of(top):
                del sys.modules[name]
            sys.modules.update(before)
            raise
        self._known[top] = self.digests(module)
        for old in before.values() if is_changed else ():
            note_replaced(old)
        return found

    def digests(self, module: str) -> dict[str, str]:
        """Return a digest of each source file of the module's package, by path; nothing unless changes are followed."""
        top = module.partition(".")[0]
        if not self._follows or top in _OWN:
            return {}
        paths = {str(each.__file__) for each in _modules_of(top).values() if each.__file__}
        return {path: _digest(path) for path in sorted(paths)}


def _modules_of(top: str) -> dict[str, ModuleType]:
    """Return the modules of a package that are imported and have a file."""
    return {
        name: module
        for name, module in tuple(sys.modules.items())
        if (name == top or name.startswith(f"{top}.")) and getattr(module, "__file__", None)
    }


def _digest(path: str) -> str:
    try:
        return blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


SOURCES: Final = PluginSources()
"""Those of this process."""
