"""What clients may not do, by user and by the rule that says so: for metrics, and for the words of mode `observe`.

Rules:
- A refusal is either a rule's, which denies, or nobody's: no rule allows it. So only the denies are looked through, by
  dicts: a client that is refused again and again costs no walk over the rules.
- Of several rules that deny the first in the file is named (`policies.access.explain` finds the same).
- Of one request MAX_NAMED rights are looked up, the others are counted as `other`.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.access.explain import masks_of
from policies.who import Audience
from wire.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from policies.access.rights import Grant
    from policies.custom_metrics import PolicyCounter
    from policies.requests import Peer
    from wire.authorization import Ask

MAX_NAMED: Final = 100
MAX_NAME_CHARS: Final = 100
"""Of a name in words; a `Deny` has 250 characters."""
NO_RULE: Final = "none"
OTHER: Final = "other"
_NAMED: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class Denies:
    """The rules that deny, and the place of each."""

    def __init__(self, grants: Iterable[Grant], teams: Mapping[str, Iterable[str]]) -> None:
        self._audience = Audience(teams)
        self._places: dict[tuple[ResourceType, str], dict[tuple[int, int], int]] = {}
        """By pattern, then by the number of a text of `who` and the operation: the first rule."""
        self._any: dict[tuple[int, int], int] = {}
        """The same of any topic."""
        self._lengths: dict[ResourceType, set[int]] = {kind: set() for kind in _NAMED}
        for place, grant in enumerate(grants):
            if not grant.allows:
                for number in map(self._audience.number, grant.who):
                    self._add(place, grant, number)

    def place(self, who: frozenset[int], ask: Ask) -> int | None:
        """Return the place of the first rule that denies this to a client with these numbers, or None."""
        kind, name, operation, _ = ask
        if isinstance(name, bytes):  # the id of a topic, which no rule can name
            return None
        denied = 0 if kind is ResourceType.CLUSTER else int(operation)
        said: Iterable[Mapping[tuple[int, int], int]]
        said = (self._any,) if name is None else self._said(kind, name)
        found = [
            by_who[number, denied]
            for by_who in said
            for number in who
            if (number, denied) in by_who
        ]
        return min(found, default=None)

    def numbers_of(self, peer: Peer) -> frozenset[int]:
        """Return the numbers of a client, for `place`."""
        return self._audience.numbers_of(peer)

    def _said(self, kind: ResourceType, name: str) -> Iterator[Mapping[tuple[int, int], int]]:
        """Yield what the patterns that fit a name say."""
        patterns = [
            f"{name[:length]}*" for length in self._lengths.get(kind, ()) if length <= len(name)
        ]
        for pattern in (name, *patterns):
            by_who = self._places.get((kind, pattern))
            if by_who is not None:
                yield by_who

    def _add(self, place: int, grant: Grant, number: int) -> None:
        for kind in _NAMED:
            for pattern, mask in masks_of(grant, kind).items():
                if pattern.endswith("*"):
                    self._lengths[kind].add(len(pattern) - 1)
                for operation in Operation:
                    if mask & 1 << operation:
                        self._say(kind, pattern, number, operation, place)
                        if kind is ResourceType.TOPIC:
                            self._any.setdefault((number, operation), place)
        for act in grant.acts:
            self._say(ResourceType.CLUSTER, act, number, 0, place)

    def _say(
        self, kind: ResourceType, pattern: str, number: int, operation: int, place: int
    ) -> None:
        by_who = self._places.setdefault((kind, pattern), {})
        by_who.setdefault((number, operation), place)


class Refusals:
    """Counts them, with the labels `user` and `rule` (`rules[2]`, or NO_RULE)."""

    def __init__(self, denies: Denies, counter: PolicyCounter) -> None:
        self._denies = denies
        self._counter = counter

    def count(self, peer: Peer, asks: Collection[Ask]) -> None:
        """Count what a client asked for and may not do."""
        who = self._denies.numbers_of(peer)
        rules = Counter(self._rule(who, ask) for ask in islice(asks, MAX_NAMED))
        rules[OTHER] += len(asks) - rules.total()
        for rule, count in rules.items():
            if count:
                self._counter.add(count, peer.user, rule)

    def words(self, peer: Peer, ask: Ask) -> str:
        """Return the right, and which rule refuses it."""
        rule = self._rule(self._denies.numbers_of(peer), ask)
        why = "no rule allows it" if rule == NO_RULE else f"{rule} denies it"
        name = ask.name.hex() if isinstance(ask.name, bytes) else ask.name
        kind = ask.kind.name.lower()
        return (
            f"{ask.operation.name} {kind} {'*' if name is None else name[:MAX_NAME_CHARS]}: {why}"
        )

    def _rule(self, who: frozenset[int], ask: Ask) -> str:
        place = self._denies.place(who, ask)
        return NO_RULE if place is None else f"rules[{place}]"
