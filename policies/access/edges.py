"""The next name that a client may see, found from its rules alone: no list of all names is known.

- Names are ordered by their characters, as Kafka orders topics. The rights of a client change at *edges* only: at a
  name that a rule has, behind that name, and where the names that begin so start and end. Between two edges all names
  have the same rights.
- So the first edge after a hidden name that is shown comes before, or is, the first name that is shown.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_LOOKS: Final = 500
"""Edges that are judged in one step."""
_BEHIND: Final = "!"
"""Sorts before each character of a topic's name, and is none: no name is between one and this after it."""


def edges_of(names: Iterable[str], prefixes: Iterable[str]) -> list[str]:
    """Return the edges of rules with these names and beginnings of names, in order."""
    found: set[str] = set()
    for name in names:
        found |= {name, f"{name}{_BEHIND}"}
    for prefix in prefixes:
        found.add(prefix)
        if prefix:
            found.add(prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return sorted(found)


def next_shown(edges: list[str], name: str, is_shown: Callable[[str], bool]) -> str | None:
    """Return the first edge after a hidden name that is shown; None if there is none.

    After MAX_LOOKS edges it is the one that was reached: the client asks again from there.
    """
    first = bisect_right(edges, name)
    for looks, place in enumerate(range(first, len(edges))):
        if looks == MAX_LOOKS or is_shown(edges[place]):
            return edges[place]
    return None
