"""Read the YAML file, remembering on which line each key path is.

- Plain YAML: no tags that make objects. A key that is there twice is a mistake, not an override.
- An empty file is an empty mapping: everything may come from elsewhere.
- The file is read once, whole, before anything is bound or dialled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from policies.settings import Problem, join

if TYPE_CHECKING:
    from pathlib import Path

_Loader: type[yaml.SafeLoader] = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # libyaml when built in


def read_file(file: Path) -> tuple[object, dict[str, str], list[Problem]]:
    """Return the data, the origin (`file:line`) of every key path, and what is wrong with the YAML."""
    try:
        text = file.read_bytes()
    except OSError as error:
        words = f"the file cannot be read: {error.strerror or error}"
        return {}, {}, [Problem("", words, origin=str(file))]
    return read_yaml(text, str(file))


def read_yaml(text: bytes | str, label: str) -> tuple[object, dict[str, str], list[Problem]]:
    """As `read_file`, of YAML at hand; `label` takes the place of the file's name."""
    origins = {"": label}
    problems: list[Problem] = []
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return {}, origins, []
            _Lines(label, origins, problems).walk(node, "", ())
            data: object = None if problems else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        return {}, origins, [_not_yaml(error, label)]
    return data, origins, problems


def _not_yaml(error: yaml.YAMLError, label: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    words = " ".join(filter(None, (getattr(error, "context", ""), getattr(error, "problem", ""))))
    origin = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
    return Problem("", f"this is not YAML: {words or error}", origin=origin)


class _Lines:
    """A walk over the nodes; `above` are those the walk is inside of."""

    def __init__(self, label: str, origins: dict[str, str], problems: list[Problem]) -> None:
        self._label = label
        self._origins = origins
        self._problems = problems

    def walk(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> None:
        if node in above:
            self._report(node, path, "an alias of what it is inside of", "a value that ends")
        elif isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, path, (*above, node))
        elif isinstance(node, yaml.SequenceNode):
            for place, item in enumerate(node.value):
                below = f"{path}[{place}]"
                self._origins[below] = self._line(item)
                self.walk(item, below, (*above, node))

    def _walk_mapping(
        self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]
    ) -> None:
        first: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._report(key, path, "a key that is not a text", "a plain key")
                continue
            below = join(path, key.value)
            if key.value in first:
                line = first[key.value].start_mark.line + 1
                self._report(key, below, "this key again", f"it once (it is on line {line})")
            first.setdefault(key.value, key)
            self._origins[below] = self._line(key)
            self.walk(value, below, above)

    def _report(self, node: yaml.Node, path: str, found: str, expected: str) -> None:
        self._problems.append(Problem(path, found, expected, origin=self._line(node)))

    def _line(self, node: yaml.Node) -> str:
        return f"{self._label}:{node.start_mark.line + 1}"
