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
from typing import TYPE_CHECKING, Final, TypeAlias

from policies.access.explain import masks_of
from policies.who import Audience
from wire.authorization import ResourceType

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
ALL_OPERATIONS: Final = -1
"""The mask of an act, which is one operation."""
_ByWho: TypeAlias = "dict[int, list[tuple[int, int]]]"
"""By the number of a text of `who`: masks of operations, each with the place of its rule."""
_NAMED: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class Denies:
    """The rules that deny, and the place of each."""

    def __init__(self, grants: Iterable[Grant], teams: Mapping[str, Iterable[str]]) -> None:
        self._audience = Audience(teams)
        self._said: dict[tuple[ResourceType, str], _ByWho] = {}
        """By pattern; of the cluster: by act."""
        self._topics: _ByWho = {}
        """What is said of any topics."""
        self._lengths: dict[ResourceType, set[int]] = {kind: set() for kind in _NAMED}
        for place, grant in enumerate(grants):
            if not grant.allows:
                for number in map(self._audience.number, grant.who):
                    self._add(place, grant, number)

    def numbers_of(self, peer: Peer) -> frozenset[int]:
        """Return the numbers of a client, for `place`."""
        return self._audience.numbers_of(peer)

    def place(self, who: frozenset[int], ask: Ask) -> int | None:
        """Return the place of the first rule that denies this to a client with these numbers, or None."""
        kind, name, operation, _ = ask
        if isinstance(name, bytes):  # the id of a topic, which no rule can name
            return None
        bit = 1 << operation
        found = [
            place
            for by_who in self._fitting(kind, name)
            for number in who & by_who.keys()
            for mask, place in by_who[number]
            if mask & bit
        ]
        return min(found, default=None)

    def _fitting(self, kind: ResourceType, name: str | None) -> Iterator[_ByWho]:
        """Yield what the patterns say that fit a name, or any if it is None."""
        if name is None:
            yield self._topics
            return
        lengths = [each for each in self._lengths.get(kind, ()) if each <= len(name)]
        for pattern in (name, *(f"{name[:length]}*" for length in lengths)):
            by_who = self._said.get((kind, pattern))
            if by_who is not None:
                yield by_who

    def _add(self, place: int, grant: Grant, number: int) -> None:
        for kind in _NAMED:
            for pattern, mask in masks_of(grant, kind).items():
                if pattern.endswith("*"):
                    self._lengths[kind].add(len(pattern) - 1)
                by_who = self._said.setdefault((kind, pattern), {})
                by_who.setdefault(number, []).append((mask, place))
                if kind is ResourceType.TOPIC:
                    self._topics.setdefault(number, []).append((mask, place))
        for act in grant.acts:
            by_who = self._said.setdefault((ResourceType.CLUSTER, act), {})
            by_who.setdefault(number, []).append((ALL_OPERATIONS, place))


class Refusals:
    """Counts them, with the labels `user` and `rule` (`rules[2]`, or NO_RULE)."""

    def __init__(self, denies: Denies, counter: PolicyCounter) -> None:
        self._denies = denies
        self._counter = counter
        self._last: tuple[Peer | None, frozenset[int]] = (None, frozenset())
        """The last client, and its numbers: most often the same one is refused again."""

    def count(self, peer: Peer, asks: Collection[Ask]) -> None:
        """Count what a client asked for and may not do."""
        who = self._numbers_of(peer)
        rules = Counter(self._rule(who, ask) for ask in islice(asks, MAX_NAMED))
        rules[OTHER] += len(asks) - rules.total()
        for rule, count in rules.items():
            if count:
                self._counter.add(count, peer.user, rule)

    def words(self, peer: Peer, ask: Ask) -> str:
        """Return the right, and which rule refuses it."""
        rule = self._rule(self._numbers_of(peer), ask)
        why = "no rule allows it" if rule == NO_RULE else f"{rule} denies it"
        name = ask.name.hex() if isinstance(ask.name, bytes) else ask.name
        kind = ask.kind.name.lower()
        return (
            f"{ask.operation.name} {kind} {'*' if name is None else name[:MAX_NAME_CHARS]}: {why}"
        )

    def _numbers_of(self, peer: Peer) -> frozenset[int]:
        known, who = self._last
        if known is not peer:
            who = self._denies.numbers_of(peer)
            self._last = peer, who
        return who

    def _rule(self, who: frozenset[int], ask: Ask) -> str:
        place = self._denies.place(who, ask)
        return NO_RULE if place is None else f"rules[{place}]"
