"""A module that is imported when it is used: libraries name some that a running Sluice never uses.

Rules:
- A library that imports the name, or takes one of the given attributes, imports nothing.
- Any other attribute, and any submodule, imports the module whole, once.
- The standard library's LazyLoader does not do: it imports at the second `import` of the name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class LateModule(ModuleType):
    """Stands for a module, with a few of its attributes. It becomes the module when another attribute is used."""

    def __getattr__(self, attribute: str) -> object:
        """Import the module, take its attributes over, and return this one."""
        caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - see the next line
        if attribute == "__path__" and caller != "importlib._bootstrap":
            raise AttributeError(
                attribute
            )  # `from package import given` asks for it; a submodule's import needs it
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = import_module(name)
        vars(self).update(vars(module))
        return getattr(module, attribute)


class LoadedFinder:
    """Finds a submodule that was imported while its package was: without it, the import would load it again."""

    @classmethod
    def find_spec(
        cls, name: str, _path: Sequence[str] | None = None, reloaded: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module comes from if it is loaded already, and None if it is not, or loaded again."""
        return ModuleSpec(name, cls) if name in sys.modules and reloaded is None else None  # type: ignore[arg-type] # a class is its own instance

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """Return the module that is loaded."""
        return sys.modules[spec.name]

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Do nothing: it has been executed."""


def import_late(name: str, **attributes: object) -> None:
    """Let `import` of this module import nothing until an attribute is used that is not one of `attributes`."""
    if name not in sys.modules:
        late = LateModule(name)
        vars(late).update(attributes)
        sys.modules[name] = late
        if LoadedFinder not in sys.meta_path:
            sys.meta_path.insert(0, LoadedFinder)
