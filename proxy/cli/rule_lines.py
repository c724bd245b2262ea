"""Gathers rights line by line, and joins them to few rules: users of equal rights share one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.config import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

KINDS: Final = tuple(OPERATIONS)
"""The keys of a rule that have names: topics, groups and transactions."""
CLUSTER: Final = "cluster"
_IMPLIED: Final = {
    "describe": {"read", "write", "delete", "alter"},
    "describe-configs": {"alter-configs"},
}
"""Operations that another one gives as well."""


class RuleText(NamedTuple):
    """A rule. Operations by pattern, as the settings have them."""

    who: tuple[str, ...]
    allows: bool
    topics: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]
    transactions: Mapping[str, tuple[str, ...]]
    cluster: tuple[str, ...]


class RuleLines:
    """Rights by users, whether they are allowed, key of a rule, and pattern (of the cluster: none)."""

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[str, ...], bool], dict[str, dict[str, set[str]]]] = (
            defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
        )

    def add(
        self,
        who: tuple[str, ...],
        key: str,
        pattern: str,
        operations: Iterable[str],
        *,
        allows: bool = True,
    ) -> None:
        """Add operations, or acts."""
        self._found[who, allows][key][pattern].update(operations)

    def rules(self) -> tuple[RuleText, ...]:
        """Return a rule for all users that have the same rights; denies come last."""
        whos: dict[tuple[object, ...], list[tuple[str, ...]]] = defaultdict(list)
        rules: dict[tuple[object, ...], RuleText] = {}
        for (who, allows), keys in self._found.items():
            topics, groups, transactions = (
                dict(_patterns(kind, keys[kind], allows=allows)) for kind in KINDS
            )
            acts = tuple(sorted(keys[CLUSTER][""]))
            parts = (*(tuple(each.items()) for each in (topics, groups, transactions)), acts)
            rules[allows, parts] = RuleText((), allows, topics, groups, transactions, acts)
            whos[allows, parts].append(who)
        joined = (
            rule._replace(who=tuple(text for who in sorted(whos[content]) for text in who))
            for content, rule in rules.items()
        )
        return tuple(sorted(joined, key=lambda rule: (not rule.allows, rule.who)))


def _patterns(
    kind: str, patterns: Mapping[str, set[str]], *, allows: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for pattern in sorted(patterns):
        given = patterns[pattern]
        if "all" in given:
            yield pattern, ("all",)
            continue
        spared = {each for each in given if allows and not given.isdisjoint(_IMPLIED.get(each, ()))}
        yield pattern, tuple(each for each in OPERATIONS[kind] if each in given - spared)
