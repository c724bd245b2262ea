"""The smallest rules that give what clients lacked.

Rules:
- A right is suggested for the user that needed it, under its name; its client id and its proof decide nothing.
- What a rule denies is never suggested: a deny wins.
- Names become one pattern only if MIN_MERGED of one user begin alike, up to a separator, with the same operations, and
  no other name that was seen begins so. The pattern gives more than was seen.
- What no rule can say, and what lets a client do more than read and write, is told.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.explain import IDEMPOTENT_WRITE, reason_of
from policies.access.patterns import INTERNAL
from policies.who import NAMELESS, PROOFS
from proxy.cli.access_rules import Who
from proxy.cli.rule_lines import CLUSTER, RuleLines
from wire.authorization import ACTS, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from policies.access.explain import FittingRule
    from policies.requests import Peer
    from proxy.cli.access_rules import AccessRules
    from proxy.cli.rights_seen import SeenRight
    from proxy.cli.rule_lines import RuleText

MIN_MERGED: Final = 5
SEPARATORS: Final = ".-_"
KEYS: Final = {"topic": "topics", "group": "groups", "transaction": "transactions"}
_KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transaction": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
_ORDINARY: Final = frozenset({IDEMPOTENT_WRITE, "describe"})


class Suggestion(NamedTuple):
    """Rules, and what a reader should know of them."""

    rules: tuple[RuleText, ...]
    notes: tuple[str, ...]


def suggest_rules(rights: Iterable[SeenRight], rules: AccessRules, *, merges: bool) -> Suggestion:
    """Return the rules that give these rights, beside those that there are."""
    notes: dict[str, None] = {}
    wanted: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    names: dict[str, set[str]] = defaultdict(set)
    lines = RuleLines()
    about = cache(rules.about)
    for right in sorted(rights, key=_order):
        if right.name is not None:
            names[right.kind].add(right.name)
        who, note = _who(right)
        if who and not note:
            note = _why_not(right, rules, about(_peer(right)))
        if note is not None:
            notes.setdefault(note)
        elif who and right.kind == "cluster" and right.name is not None:
            lines.add((who,), CLUSTER, "", [right.name])
            if right.name not in _ORDINARY:
                notes.setdefault(f"review: {who} gets the act {right.name}")
        elif who and right.name is None:
            wanted[who, right.kind]["*"].add(right.operation)
            notes.setdefault(f"review: {who} gets {right.operation} on all topics, for its pattern")
        elif who:
            wanted[who, right.kind][right.name or ""].add(right.operation)
    for (who, kind), operations in wanted.items():
        merged = _merged(operations, names[kind]) if merges else {}
        for pattern, of_name in merged.items():
            notes.setdefault(f"review: {pattern} of {who} stands for {of_name} {KEYS[kind]}")
        for name, given in operations.items():
            fits = next((each for each in merged if name.startswith(each[:-1])), name)
            lines.add((who,), KEYS[kind], fits, given)
    return Suggestion(lines.rules(), tuple(notes))


def _order(right: SeenRight) -> tuple[str, ...]:
    return (right.user, right.kind, right.name or "", right.operation, right.proof, right.client_id)


def _who(right: SeenRight) -> tuple[str, str | None]:
    """Return the text of `who`, and a note if there is none."""
    user, way = right.user, "token" if right.proof == "claim" else right.proof.partition(":")[0]
    first, colon, _ = user.partition(":")
    if user in NAMELESS and right.proof:
        if way in PROOFS:
            return f"{way}:{user}", None
    elif user and "*" not in user and not (colon and first in {*PROOFS, "team", "client"}):
        return user, None
    return "", f"cannot be said: no rule is about a user of the name {user}"


def _why_not(right: SeenRight, rules: AccessRules, about: Iterable[FittingRule]) -> str | None:
    """Return a note if the right cannot be suggested; empty if the rules give it already."""
    subject = f"{right.operation} {right.kind} {'*' if right.name is None else right.name}"
    if right.kind == "cluster":
        if right.name not in ACTS:
            return (
                f"cannot be said: no rule gives the act {right.name}, which {right.user} asked for"
            )
    elif right.name is not None and (not right.name or "*" in right.name):
        return f"cannot be said: {subject} for {right.user}: the name is a pattern in a rule"
    operation = Operation[right.operation.replace("-", "_").upper()]
    reason = reason_of(about, _KINDS[right.kind], right.name, operation)
    if reason.place is not None and not reason.is_allowed:
        return f"not suggested: {subject} for {right.user}: {rules.words(reason)}"
    return "" if reason.is_allowed else None


def _peer(right: SeenRight) -> Peer:
    return Who(right.user, right.client_id, right.proof).peer()


def _merged(operations: Mapping[str, Collection[str]], seen: Collection[str]) -> dict[str, int]:
    """Return the patterns that may stand for many names, each with their number."""
    found: dict[str, int] = {}
    for beginning in _beginnings(operations):
        fitting = [name for name in operations if name.startswith(beginning)]
        if (
            len(fitting) >= MIN_MERGED
            and not any(name.startswith(each[:-1]) for name in fitting for each in found)
            and len({frozenset(operations[name]) for name in fitting}) == 1
            and sum(name.startswith(beginning) for name in seen) == len(fitting)
        ):
            found[f"{_common(fitting)}*"] = len(fitting)
    return found


def _common(names: Collection[str]) -> str:
    """Return the longest beginning of all names that ends in a separator."""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    end = next((place for place, (a, b) in pairs if a != b), len(first))
    return first[: max(first.rfind(each, 0, end) for each in SEPARATORS) + 1]


def _beginnings(names: Iterable[str]) -> Iterator[str]:
    """Yield each beginning of names that ends in a separator, the shortest first."""
    found = {
        name[: place + 1]
        for name in names
        if not name.startswith(INTERNAL)
        for place, character in enumerate(name)
        if place and character in SEPARATORS
    }
    yield from sorted(found, key=lambda beginning: (len(beginning), beginning))
