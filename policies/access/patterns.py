"""Masks of operations by pattern: what the rules say of one kind of names to whom one text of `who` fits.

Rules:
- READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS, as in Kafka. A denied READ denies
  no DESCRIBE.
- A name that begins with `__` is allowed only by patterns that begin so, and by itself: `*` gives no internal topic. It
  is denied by all that fit.
- A mask has the bit `1 << operation`, as AuthorizedOperations have in Kafka's replies. What a pattern says is one
  number: what is allowed, and above it (`DENIED`) what is denied. So what several patterns say is joined by `|`.
- A client has a table for each text that fits it, and shares them with others. A name costs one look for each length
  of these tables' patterns, however many rules there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.access.edges import edges_of
from wire.authorization import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERNAL: Final = "__"
DENIED: Final = 16
"""How far denied operations stand above allowed ones: an operation is below it."""
_ALLOWED: Final = (1 << DENIED) - 1
_IMPLIED: Final = (
    (Operation.DESCRIBE, (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    (Operation.DESCRIBE_CONFIGS, (Operation.ALTER_CONFIGS,)),
)
_GIVERS: Final = tuple((1 << to, sum(1 << each for each in givers)) for to, givers in _IMPLIED)


class Table:
    """What the rules say of one kind of names, for one text of `who`."""

    __slots__ = ("any", "lengths", "names", "prefixes")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.prefixes: dict[str, int] = {}
        self.lengths: list[int] = []
        """Those of the prefixes."""
        self.any = 0
        """What is said of any name."""

    def add(self, pattern: str, mask: int, *, allows: bool) -> None:
        """Add what one rule says."""
        said = with_implied(mask) if allows else mask << DENIED
        self.any |= said
        patterns, text = self.names, pattern
        if pattern.endswith("*"):
            patterns, text = self.prefixes, pattern[:-1]
            if text not in patterns and len(text) not in self.lengths:
                self.lengths.append(len(text))
        patterns[text] = patterns.get(text, 0) | said

    def said_of(self, name: str) -> int:
        """Return what all patterns together say of a name."""
        said = self.names.get(name, 0)
        is_internal = name.startswith(INTERNAL)
        size = len(name)
        prefixes = self.prefixes
        for length in self.lengths:
            if length <= size:
                found = prefixes.get(name[:length])
                if found is not None:
                    if is_internal and length < len(INTERNAL):
                        found &= ~_ALLOWED
                    said |= found
        return said


def left(said: int) -> int:
    """Return what may be done: what is allowed and not denied."""
    return said & ~(said >> DENIED) & _ALLOWED


def of_all(tables: Iterable[Table]) -> int:
    """Return what may be done with every name: allowed by `*`, and denied for no name."""
    said = 0
    for table in tables:
        said |= table.prefixes.get("", 0) & _ALLOWED | table.any & ~_ALLOWED
    return left(said)


def of_internal(tables: Iterable[Table]) -> int:
    """Return what may be done with every name that begins with `__`: allowed by `__*`, and denied for no name."""
    said = 0
    for table in tables:
        said |= table.prefixes.get(INTERNAL, 0) & _ALLOWED | table.any & ~_ALLOWED
    return left(said)


def of_any(tables: tuple[Table, ...], mask: int) -> bool:
    """Return whether `mask` is allowed for any name: by a pattern that no denied one covers.

    Kafka: `Authorizer.authorizeByResourceType`.
    """
    denied = mask << DENIED
    denying = [table for table in tables if table.any & denied]
    for table in tables:
        if not table.any & mask:
            continue
        for patterns in (table.names, table.prefixes):
            for pattern, said in patterns.items():
                if said & mask and not any(
                    _denies(each, pattern, denied, is_prefix=patterns is table.prefixes)
                    for each in denying
                ):
                    return True
    return False


def edges(tables: Iterable[Table]) -> list[str]:
    """Return the edges of what the tables say (`policies.access.edges`)."""
    names: set[str] = set()
    prefixes = {INTERNAL}
    for table in tables:
        names.update(table.names)
        prefixes.update(table.prefixes)
    return edges_of(names, prefixes)


def with_implied(mask: int) -> int:
    """Return the mask with the operations that those in it imply."""
    for implied, givers in _GIVERS:
        if mask & givers:
            mask |= implied
    return mask


def _denies(table: Table, pattern: str, denied: int, *, is_prefix: bool) -> bool:
    if not is_prefix and table.names.get(pattern, 0) & denied:
        return True
    return any(
        table.prefixes.get(pattern[:length], 0) & denied
        for length in table.lengths
        if length <= len(pattern)
    )
