"""Kafka's error codes in a release, read from its class files or its Java source, without a Java.

- The enum `Errors` names each code with its number and the exception that clients get. A code is retriable if that
  exception extends RetriableException.
- In a jar, the static initialiser of `Errors.class` makes one constant after another: it loads name, ordinal, code and
  message, takes the exception's constructor, and stores the constant. Only the few instructions that this takes are
  read; the first other one ends the list.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.releases.definitions import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.releases.definitions import Files

_RETRIABLE = "RetriableException"
_CONSTANT = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\(\s*(-?\d+)\s*,", re.MULTILINE)
_EXCEPTION = re.compile(r"(\w+)::new")
_POOL = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 16: 2, 19: 2, 20: 2, 15: 3} | dict.fromkeys(
    (9, 10, 11, 12, 17, 18), 4
)
"""Bytes of a constant by its tag (JVM specification, 4.4); those of a text (tag 1) stand before it."""
_LDC, _LDC_W, _BIPUSH, _SIPUSH, _PUTSTATIC, _INVOKEDYNAMIC = 0x12, 0x13, 0x10, 0x11, 0xB3, 0xBA
_ICONSTS = range(0x02, 0x09)  # iconst_m1 to iconst_5
_BYTES = dict.fromkeys((*_ICONSTS, 0x01, 0x59), 1) | {
    _LDC: 2, _LDC_W: 3, _BIPUSH: 2, _SIPUSH: 3, _PUTSTATIC: 3, _INVOKEDYNAMIC: 5,
    0xBB: 3, 0xB7: 3,
}  # fmt: skip
"""Bytes of each instruction that makes a constant: also aconst_null, dup, new and invokespecial."""


class JavaError(NamedTuple):
    """One constant of the enum."""

    name: str
    code: int
    is_retriable: bool


def read_errors(files: Files) -> list[JavaError]:
    """Return the error codes of a release by number; none if it has no `Errors`. Raises DefinitionError."""
    if (compiled := files.find("Errors.class")) is not None:
        found = _constants(_ClassFile(compiled))

        def parent(name: str) -> str | None:
            inner = files.find(f"{name}.class")
            return None if inner is None else _ClassFile(inner).parent

    elif (source := files.find("Errors.java")) is not None:
        found = _declared(source.decode())

        def parent(name: str) -> str | None:
            inner = files.find(f"{name}.java")
            said = re.search(rf"class {name}\s+extends\s+(\w+)", (inner or b"").decode())
            return said[1] if said else None

    else:
        return []
    errors = [JavaError(name, code, _is_retriable(made, parent)) for name, code, made in found]
    if not errors:
        raise DefinitionError("Errors has no constants where they are looked for")
    return sorted(errors, key=lambda each: each.code)


def _is_retriable(exception: str | None, parent: Callable[[str], str | None]) -> bool:
    while exception is not None and exception != _RETRIABLE:
        exception = parent(exception)
    return exception is not None


def _declared(source: str) -> Iterator[tuple[str, int, str | None]]:
    """Yield name, code and exception of each constant in the Java source."""
    found = list(_CONSTANT.finditer(source))
    ends = [each.start() for each in found[1:]] + [len(source)]
    for constant, end in zip(found, ends, strict=True):
        exception = _EXCEPTION.search(source, constant.end(), end)
        yield constant[1], int(constant[2]), exception[1] if exception else None


def _constants(errors: _ClassFile) -> Iterator[tuple[str, int, str | None]]:
    """Yield name, code and exception of each constant that the static initialiser makes."""
    code, at = errors.static_initialiser(), 0
    loaded: list[Any] = []
    while at < len(code) and code[at] in _BYTES:
        instruction, size = code[at], _BYTES[code[at]]
        operand = code[at + 1 : at + size]
        if instruction in (_LDC, _LDC_W):
            loaded.append(errors.text(int.from_bytes(operand)))
        elif instruction in (_BIPUSH, _SIPUSH):
            loaded.append(int.from_bytes(operand, signed=True))
        elif instruction in _ICONSTS:
            loaded.append(instruction - 3)
        elif instruction == _INVOKEDYNAMIC:
            loaded.append(errors.made_by(int.from_bytes(operand[:2])))
        elif instruction == _PUTSTATIC:
            name, _ordinal, number, *_, exception = loaded
            yield name, number, exception
            loaded.clear()
        at += size


class _ClassFile:
    """A compiled class: its constants, its static initialiser and its parent (JVM specification, chapter 4)."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 8
        self._pool: list[Any] = [None]
        count = self._u2()
        while len(self._pool) < count:
            tag = self._take(1)[0]
            self._pool.append((tag, self._take(_POOL[tag] if tag != 1 else self._u2())))
            if tag in (5, 6):  # a number of eight bytes takes two places
                self._pool.append(None)
        self._u2()
        self._u2()
        self.parent = self._class_name(self._u2())
        self._take(2 * self._u2())
        self._members()  # fields
        self._methods = self._members()
        self._attributes = self._attributes_here()

    def static_initialiser(self) -> bytes:
        """Return its instructions."""
        code = self._methods["<clinit>"]["Code"]
        return code[8 : 8 + int.from_bytes(code[4:8])]

    def text(self, place: int) -> str:
        """Return the text that a constant of a string holds."""
        return self._utf8(int.from_bytes(self._pool[place][1]))

    def made_by(self, call_site: int) -> str | None:
        """Return the class whose constructor an `invokedynamic` takes; None if it takes another method."""
        number = int.from_bytes(self._pool[call_site][1][:2])
        table, at = self._attributes["BootstrapMethods"], 2
        for _ in range(number):
            at += 4 + 2 * int.from_bytes(table[at + 2 : at + 4])
        handle = self._pool[int.from_bytes(table[at + 6 : at + 8])][1]  # its second argument
        owner, what = struct.unpack(">HH", self._pool[int.from_bytes(handle[1:])][1])
        name = self._utf8(int.from_bytes(self._pool[what][1][:2]))
        return self._class_name(owner) if name == "<init>" else None

    def _class_name(self, place: int) -> str:
        """Return a class's name without its package."""
        return self._utf8(int.from_bytes(self._pool[place][1])).rpartition("/")[2]

    def _utf8(self, place: int) -> str:
        return str(self._pool[place][1], "utf-8")

    def _members(self) -> dict[str, dict[str, bytes]]:
        """Return the attributes of each field or method by its name."""
        found = {}
        for _ in range(self._u2()):
            _, name, _ = self._u2(), self._u2(), self._u2()
            found[self._utf8(name)] = self._attributes_here()
        return found

    def _attributes_here(self) -> dict[str, bytes]:
        found = {}
        for _ in range(self._u2()):
            name = self._utf8(self._u2())
            found[name] = self._take(int.from_bytes(self._take(4)))
        return found

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _u2(self) -> int:
        return int.from_bytes(self._take(2))
