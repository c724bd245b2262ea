"""No import cycles, imports for type checking and inside of functions counted."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

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


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return every node that a path of arrows leads to from the start."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def in_cycles(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes from which a path of arrows leads back to themselves."""
    return {node for node in graph if node in reached(graph, node)}


def arrows_in_cycles(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the arrows whose end leads back to their start, written `start -> end`."""
    found: set[str] = set()
    for end in graph:
        back = reached(graph, end)
        found |= {f"{start} -> {end}" for start in back if end in graph.get(start, ())}
    return found


def room(module: str) -> str:
    """Return the room of a module: the highest folder above it that is not divided, or itself."""
    parts = module.split(".")
    for n in range(1, len(parts)):
        if (highest := ".".join(parts[:n])) not in DIVIDED:
            return highest
    return module


GRAPH = {module: imports(path) for module, path in MODULES.items()}


def test_no_module_is_part_of_a_cycle() -> None:
    """Every module can be read after the modules that it imports."""
    assert not in_cycles(GRAPH)


def test_no_room_is_part_of_a_cycle() -> None:
    """The arrows between rooms point down."""
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for module, targets in GRAPH.items():
        graph[room(module)] |= {room(each) for each in targets} - {room(module)}

    assert not arrows_in_cycles(graph)


def test_a_cycle_is_found_with_all_that_is_on_it() -> None:
    """The search names the nodes and arrows of a ring, and not those that only lead into it."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set[str]()}

    assert in_cycles(graph) == {"a", "b", "c"}
    assert arrows_in_cycles(graph) == {"a -> b", "b -> c", "c -> a"}
    assert in_cycles({"a": {"b"}, "b": set()}) == set()


def test_a_divided_folder_has_a_room_for_each_folder_and_module_in_it() -> None:
    """The parts of the core are rooms; the folders below a room are not."""
    assert room("proxy.core.session.exchange") == "proxy.core.session"
    assert room("proxy.core.engine") == "proxy.core.engine"
    assert room("proxy.telemetry.metrics.push") == "proxy.telemetry"
    assert room("wire.produce") == "wire"
