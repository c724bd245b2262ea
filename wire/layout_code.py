"""Writes Python code that steps over the fields of a message: what `names_code` and `cuts_code` have in common.

- `dataclasses` makes its methods so, too: a loop over the layout would cost ten times as much for each message.
- The code trusts no size: it never goes back, so one check after the last field finds all that end too early. An
  IndexError or `struct.error` says the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDENT: Final = "    "


class LayoutCode:
    """The lines of one function, whose variables `buf`, `pos` and `end` say where it reads.

    `flexible`: sizes and counts are varints, and a tag section follows each struct (KIP-482).
    """

    def __init__(self, head: str, *, flexible: bool) -> None:
        self.flexible = flexible
        self.lines = [head]
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Add lines at the present indentation."""
        self.lines += [_INDENT * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block; what is added in this context belongs to the block."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def tags(self, tool: str) -> None:
        """Step over the tag section of a struct, if there is one; `tool` is called for one that is not empty."""
        if self.flexible:
            self.add(f"if buf[pos]: {tool}", "else: pos += 1")

    def read_count(self, count: str) -> None:
        """Read the count of an array into a variable; null is -1."""
        if self.flexible:
            self.add(f"{count} = buf[pos] - 1", "pos += 1")
            self.add(f"if {count} > 126: {count}, pos = compact_count(buf, pos - 1, end)")
        else:
            self.add(f"{count} = int32_at(buf, pos)[0]", "pos += 4")
            self.add(f"if {count} < -1: raise _bad_size({count})")

    def read_text(self, variable: str) -> None:
        """Read a string into a variable; None if it is null."""
        if self.flexible:
            self.add("size = buf[pos]", "pos += 1")
            self.add("if size > 127: size, pos = uvarint(buf, pos - 1, end)")
            self.add("size -= 1")
        else:
            self.add("size = int16_at(buf, pos)[0]", "pos += 2")
            self.add("if size < -1: raise _bad_size(size)")
        self.add("if size >= 0:")
        self.add(f"    {variable} = buf[pos : pos + size].decode()", "    pos += size")
        self.add(f"else: {variable} = None")

    def skip_text(self, skipper: str = "skip_string") -> None:
        """Step over a string or bytes; `skipper` does it in versions that are not flexible."""
        if self.flexible:
            self.add("size = buf[pos]")
            self.add("if size < 128: pos += size or 1")
            self.add("elif (more := buf[pos + 1]) < 128: pos += (size & 127 | more << 7 or 1) + 1")
            self.add("else: pos = skip_compact(buf, pos, end)")
        else:
            self.add(f"pos = {skipper}(buf, pos, end)")
