"""One name, one thing: no public class name and no file stem twice."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.support.house.house import ROOM_MODULES, ROOT, name

STEMS_BY_FOLDER = {
    "__init__",  # Python's own
    "__main__",  # Python's own
    "config",  # the settings of the policy in whose folder it lies
    "errors",  # the faults of the room in which it lies
}


def twice(pairs: list[tuple[str, Path]]) -> dict[str, list[str]]:
    """Return each name that has more than one file, with the files."""
    found = defaultdict(list)
    for each, path in pairs:
        found[each].append(name(path))
    return {each: paths for each, paths in found.items() if len(paths) > 1}


def test_no_public_class_name_is_used_twice() -> None:
    """A class name that is found by search leads to one class."""
    classes = [
        (node.name, path)
        for path in ROOM_MODULES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]

    found = twice(classes)

    assert not found


def test_no_module_name_is_used_twice() -> None:
    """A file name says what is in it, without its folder.

    The pipeline is a program of its own; a command of it has the name of its job.
    """
    jobs, commands = ROOT / "pipeline", ROOT / "pipeline" / "cli"
    modules = [path for path in ROOM_MODULES if not path.is_relative_to(commands)]
    for in_pipeline in (True, False):
        room = [path for path in modules if path.is_relative_to(jobs) is in_pipeline]
        found = twice([(path.stem, path) for path in room])

        assert not {each: found[each] for each in found.keys() - STEMS_BY_FOLDER}


def test_the_rooms_are_looked_at() -> None:
    """The tests above do not pass because nothing was read."""
    assert len(ROOM_MODULES) > 100
    assert all(path.is_relative_to(ROOT) for path in ROOM_MODULES)
