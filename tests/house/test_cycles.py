"""No import cycles, imports for type checking and inside of functions counted."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.house.house import ROOM_MODULES, ROOT

DIVIDED = ("proxy", "proxy.core")
"""Each folder in these is a room, and so is each of their own modules."""


def dotted(path: Path) -> str:
    """Return the module's name as it is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in ROOM_MODULES}


def imports(path: Path) -> set[str]:
    """Return the project's modules that this one imports, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = below & MODULES.keys()
            found |= inner
            if inner != below:
                found.add(node.module)
    return (found & MODULES.keys()) - {dotted(path)}


def room(module: str) -> str:
    """Return the room of a module: the highest folder above it that is not divided, or itself."""
    parts = module.split(".")
    for n in range(1, len(parts)):
        if (highest := ".".join(parts[:n])) not in DIVIDED:
            return highest
    return module


def test_no_module_and_no_room_is_part_of_a_cycle() -> None:
    """A module can be read after those that it imports, and so can a room; one import upwards is found."""
    modules = {module: imports(path) for module, path in MODULES.items()}
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for module, targets in modules.items():
        rooms[room(module)] |= {room(each) for each in targets} - {room(module)}

    assert "proxy.core.session" in rooms["proxy.shell"]
    TopologicalSorter(modules).prepare()
    TopologicalSorter(rooms).prepare()
    rooms["proxy.core.session"].add("proxy.shell")
    with pytest.raises(CycleError):
        TopologicalSorter(rooms).prepare()
