"""No import cycles, imports for type checking and inside of functions counted."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from tests.support.house import ROOM_MODULES, ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# How many modules of a package are part of a cycle. The figures may only go down.
MODULES_IN_CYCLES = {"proxy.core": 29, "proxy.admin": 3}
PACKAGES_IN_CYCLES = 4
"""`proxy` (its own modules), `proxy.admin`, `proxy.cli` and `proxy.demo`."""


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


def in_cycles(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes from which a path of arrows leads back to themselves."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return {node for node in graph if node in _reached(graph, node)}
    return set()


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += graph.get(node, ())
    return reached


def package(module: str) -> str:
    """Return the room of a module: the first two names of its package."""
    path = MODULES[module]
    return ".".join(path.parent.relative_to(ROOT).parts[:2])


GRAPH = {module: imports(path) for module, path in MODULES.items()}


def test_no_more_modules_are_part_of_a_cycle() -> None:
    """Every module can be read after those that it imports."""
    found = Counter(package(module) for module in in_cycles(GRAPH))

    assert not {room: n for room, n in found.items() if n > MODULES_IN_CYCLES.get(room, 0)}


def test_no_more_rooms_are_part_of_a_cycle() -> None:
    """The arrows between rooms point down."""
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for module, targets in GRAPH.items():
        graph[package(module)] |= {package(each) for each in targets} - {package(module)}

    assert len(in_cycles(graph)) <= PACKAGES_IN_CYCLES


def test_a_cycle_is_found_with_all_that_is_on_it() -> None:
    """The search above names the nodes of a ring, and not those that only lead into it."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}

    assert in_cycles(graph) == {"a", "b", "c"}
    assert in_cycles({"a": {"b"}, "b": set()}) == set()
