"""Read YAML, remembering on which line each key path is.

- Plain YAML: no tags that make objects. A duplicate key is an error, not an override.
- An empty text is an empty mapping.
- The size after unfolding aliases is bounded: aliases of aliases, or thousands of brackets, are refused.
"""

from __future__ import annotations

import yaml
from yaml.composer import Composer

from policies.validation import Problem, join_path

SHOWN_CHARS = 100


def _loader() -> type[yaml.SafeLoader]:
    """Events by libyaml where it is built in, nodes in Python.

    libyaml would make all nodes of a file in one call that no other thread can interrupt: the event loop would
    stop for a reload.
    """
    if not hasattr(yaml, "CSafeLoader"):
        return yaml.SafeLoader

    class Loader(Composer, yaml.CSafeLoader):
        def __init__(self, stream: bytes | str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            Composer.__init__(self)

    return Loader  # type: ignore[return-value] # it has all that is used of a SafeLoader


_Loader = _loader()
MAX_BYTES = 16 << 20
"""Of one file. The caller bounds what it reads."""
MAX_VALUES = 250_000
"""Of one file, with aliases unfolded: enough for the quotas of 50,000 entities."""
MAX_DEPTH = 100
TAB = "a tab cannot indent YAML: use spaces"


def read_yaml(text: bytes | str, label: str) -> tuple[object, dict[str, str], list[Problem]]:
    """Return the data, the origin (`label:line`) of every key path, and the problems of the YAML."""
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
            _take_apart(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        return {}, origins, [_not_yaml(error, label, text)]
    except RecursionError:
        return {}, origins, [Problem("", *_TOO_DEEP, origin=label)]
    except ValueError as error:  # a date without such a day, a number of thousands of digits
        return {}, origins, [Problem("", f"a value that cannot be read: {error}", origin=label)]
    return data, origins, problems


def _take_apart(node: yaml.Node) -> None:
    """Free the tree node by node: freed as one, thousands of quotas keep the interpreter from the loop for 6 ms."""
    left = [node]
    while left:
        each = left.pop()
        children, each.value = each.value, None
        if isinstance(each, yaml.MappingNode):
            for pair in children or ():
                left.extend(pair)
        elif isinstance(each, yaml.SequenceNode):
            left.extend(children or ())


_TOO_DEEP = ("more levels than can be read", f"at most {MAX_DEPTH} levels of lists and mappings")


def _not_yaml(error: yaml.YAMLError, label: str, text: bytes | str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    words = " ".join(filter(None, (getattr(error, "context", ""), getattr(error, "problem", ""))))
    origin = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
    excerpt = ""
    if mark:
        line, excerpt = _excerpt(text, mark.line, mark.column)
        if "\t" in line[: mark.column + 1] and not line[: mark.column].strip():
            words = TAB
    return Problem("", f"this is not YAML: {words or error}", origin=origin, excerpt=excerpt)


def _excerpt(text: bytes | str, line: int, column: int) -> tuple[str, str]:
    """A line of the text (counted from 0), and the same to be shown, with a caret below `column`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    lines = text.splitlines()
    content = lines[line] if line < len(lines) else ""
    begin = max(0, column - SHOWN_CHARS // 2)
    shown = content[begin : begin + SHOWN_CHARS].replace("\t", "\u2192")
    shown = "".join(each if each.isprintable() else "\ufffd" for each in shown)
    margin = f"    {line + 1} | "
    caret = " " * (len(margin) - 2) + "| " + " " * (column - begin) + "^"
    return content, f"{margin}{shown}\n{caret}"


class _Lines:
    """A walk over the nodes; `above` are those the walk is inside of."""

    def __init__(self, label: str, origins: dict[str, str], problems: list[Problem]) -> None:
        self._label = label
        self._origins = origins
        self._problems = problems
        self._left = MAX_VALUES

    def walk(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> None:
        self._left -= 1
        if self._left <= 0:
            if self._left == 0:
                expected = f"at most {MAX_VALUES} values, aliases unfolded"
                self._report(node, "", "more values than can be read", expected)
        elif len(above) > MAX_DEPTH:
            self._report(node, "", *_TOO_DEEP)
            self._left = 0  # one report is enough
        elif node in above:
            self._report(
                node, path, "an alias that contains itself", "a value without itself inside"
            )
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
                self._report(key, path, "a key that is not text", "a plain key")
                continue
            below = join_path(path, key.value)
            if key.value in first:
                line = first[key.value].start_mark.line + 1
                self._report(
                    key, below, "a duplicate key", f"each key once (it is also on line {line})"
                )
            first.setdefault(key.value, key)
            self._origins[below] = self._line(key)
            self.walk(value, below, above)

    def _report(self, node: yaml.Node, path: str, found: str, expected: str) -> None:
        self._problems.append(Problem(path, found, expected, origin=self._line(node)))

    def _line(self, node: yaml.Node) -> str:
        return f"{self._label}:{node.start_mark.line + 1}"
