"""The files of the project, as the tests of the house see them."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("wire", "policies", "proxy", "pipeline")
MADE = {"__pycache__", "build", "dist", "site", "reports", "bin"}
"""Folders that tools make; dotfiles and *.egg-info are passed over too."""
SOURCES = {".py", ".c", ".h", ".sh"}
TEXTS = {*SOURCES, ".md", ".toml", ".yml", ".yaml", ".txt", ".in", ".cfg", ".json", ".jinja", ""}


def files_below(folder: Path) -> list[Path]:
    """Return every file that someone wrote, sorted."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name in MADE or path.name.startswith(".") or path.name.endswith(".egg-info"):
            continue
        found.extend(files_below(path) if path.is_dir() else [path])
    return found


FILES = [*files_below(ROOT), *(path for path in (ROOT / ".ci").iterdir() if path.is_file())]
TEXT_FILES = [path for path in FILES if path.suffix in TEXTS]
MODULES = [path for path in FILES if path.suffix == ".py"]
ROOM_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ROOMS]


def name(path: Path) -> str:
    """Return the path as a reader of the project knows it."""
    return path.relative_to(ROOT).as_posix()


def sleeps(nodes: list[ast.AST]) -> list[int]:
    """Return the lines that call `time.sleep`, under any name of the import."""
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name == "sleep"
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "time.sleep")
            or (isinstance(node.func, ast.Name) and node.func.id in names)
        )
    ]


class Facts(NamedTuple):
    """The facts of a module that several tests of the house need: it is parsed once."""

    has_code: bool
    has_docstring: bool
    silent_tests: list[str]
    """Its tests without a sentence."""
    sleeps: list[int]


@cache
def facts(path: Path) -> Facts:
    """Return the facts of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(ast.walk(tree))
    silent = [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    return Facts(bool(tree.body), bool(ast.get_docstring(tree)), silent, sleeps(nodes))
