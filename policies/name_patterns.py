"""Names of topics, groups and clients in settings: a name, or the beginning of names and `*`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.validation import Problem
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ALL: Final = "*"


class NamePatterns(NamedTuple):
    """Several patterns. It is false if there are none."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def of(cls, patterns: Iterable[str]) -> NamePatterns:
        """Return these patterns."""
        given = frozenset(patterns)
        prefixes = sorted(each[:-1] for each in given if each.endswith(ALL))
        names = frozenset(each for each in given if not each.endswith(ALL))
        return cls(names, tuple(prefixes), ALL in given)

    def __bool__(self) -> bool:
        """Return whether there is a pattern."""
        return bool(self.names or self.prefixes)

    def has(self, name: str) -> bool:
        """Return whether one of the patterns fits the name."""
        return name in self.names or name.startswith(self.prefixes)


def pattern_mistake(path: str, pattern: str) -> Iterator[Problem]:
    """Yield a problem with the pattern at `path` of the settings, if it has one."""
    if not pattern or ALL in pattern[:-1]:
        yield Problem(path, short_repr(pattern), "a name, or the beginning of names and *")
