"""The type files of the compiled build (`.pxd`), read as text: no Cython is needed."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.house.house import ROOMS, ROOT, files_below

CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:")
FIELDS = re.compile(r"^    cdef (?:public (long long|\w+) ([\w, ]+)|object (__weakref__))$")
CIMPORT = re.compile(r"^(?:from (\S+) )?cimport (.+)$")
LIBRARIES = ("cython", "cpython", "libc", "posix")


@dataclass
class TypeFile:
    """A type file: the fields of its classes, what it cimports, and the lines that are neither."""

    path: Path
    fields: dict[str, list[str]] = field(default_factory=dict)
    cimports: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    @property
    def module(self) -> str:
        """Return the name of its module."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    @property
    def is_twin(self) -> bool:
        """Return whether it has C functions or constants for the others, and its module is not compiled."""
        lines = self.path.read_text("utf-8").splitlines()
        return any("inline" in line or line.startswith("cdef enum") for line in lines)


def type_files() -> list[TypeFile]:
    """Return all type files of the product."""
    paths = [path for room in ROOMS for path in files_below(ROOT / room) if path.suffix == ".pxd"]
    return [read(path) for path in paths]


def read(path: Path) -> TypeFile:
    """Return a type file. A line of a class that cannot be read as a field is in `strange`, if it declares data."""
    found = TypeFile(path)
    fields: list[str] | None = None
    for line in path.read_text("utf-8").splitlines():
        if head := CLASS.match(line):
            fields = found.fields.setdefault(head[1], [])
        elif cimport := CIMPORT.match(line):
            source, names = cimport[1], [name.strip(" ()") for name in cimport[2].split(",")]
            found.cimports += names if source is None else [f"{source}.{name}" for name in names]
        elif (declared := FIELDS.match(line)) and fields is not None:
            fields += [name.strip() for name in (declared[2] or declared[3]).split(",")]
        elif line.startswith("    cdef ") and fields is not None and "(" not in line:
            found.strange.append(line)
        elif line and not line.startswith((" ", ")")):
            fields = None
    return found


def declared_fields(source: Path) -> dict[str, set[str]]:
    """Return the fields of each class of a module: its `__slots__`, the annotations of a dataclass, or the attributes
    that its `__init__` sets.
    """
    tree = ast.parse(source.read_text("utf-8"))
    return {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _fields(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__slots__":
            found |= {
                each.value
                for each in ast.walk(line.value)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
        elif (
            is_dataclass
            and isinstance(line, ast.AnnAssign)
            and "ClassVar" not in ast.unparse(line.annotation)
        ):
            found.add(ast.unparse(line.target))
    return found or _set_by_init(node)


def annotated(source: Path) -> dict[str, set[str]]:
    """Return the names that each class of a module annotates without a value; Cython refuses one that is no field."""
    tree = ast.parse(source.read_text("utf-8"))
    return {
        node.name: {
            ast.unparse(line.target)
            for line in node.body
            if isinstance(line, ast.AnnAssign) and line.value is None
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _set_by_init(node: ast.ClassDef) -> set[str]:
    """Return the attributes of a class without `__slots__`."""
    return {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for target in ast.walk(method)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and ast.unparse(target.value) == "self"
    }
