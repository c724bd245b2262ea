"""Public docstrings name what is raised, where the body raises it."""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.support.house.house import ROOM_MODULES, ROOT, name

# How many public functions of a room do not name what they raise. The figures may only go down.
SILENT = {"wire": 23, "policies": 2, "proxy": 4}
OF_PYTHON = {"NotImplementedError", "AssertionError"}
"""They say that the caller has a bug; no caller handles them."""


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the public functions and methods of a module or class, those of the command line left out."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
            yield from functions(each)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            is_command = any(
                word in ast.unparse(one)
                for one in each.decorator_list
                for word in ("command", "option", "group")
            )
            if not each.name.startswith("_") and not is_command:
                yield each


def raised(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of the exceptions that the body raises itself."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            last = ast.unparse(kind).rpartition(".")[2]
            if last[:1].isupper():
                found.add(last)
        waiting += ast.iter_child_nodes(node)
    return found - OF_PYTHON


def unnamed(tree: ast.Module) -> list[str]:
    """Return each function whose docstring leaves out an exception; `See X.` refers to that of X."""
    return [
        f"{function.name}: {', '.join(sorted(missing))}"
        for function in functions(tree)
        for text in [ast.get_docstring(function) or ""]
        for missing in [{each for each in raised(function) if each not in text}]
        if missing and not text.startswith("See ")
    ]


def test_public_docstrings_name_what_is_raised() -> None:
    """A caller learns from the docstring what to handle."""
    found = [
        (path.relative_to(ROOT).parts[0], f"{name(path)}: {each}")
        for path in ROOM_MODULES
        for each in unnamed(ast.parse(path.read_text("utf-8")))
    ]
    counted = Counter(room for room, _ in found)

    assert all(counted[room] <= SILENT[room] for room in counted), [each for _, each in found]


def test_an_exception_that_is_left_out_is_found() -> None:
    """The check above sees what a body raises, and not what a function inside of it does."""
    code = '''
def silent():
    """Return one."""
    raise errors.WireError("no")

def named():
    """Return one. Raises WireError."""
    raise WireError

def outer():
    """Return a function."""
    def inner():
        raise WireError
'''
    assert unnamed(ast.parse(code)) == ["silent: WireError"]
