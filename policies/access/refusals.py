"""What clients may not do, by user and by the rule that says so: for metrics, and for the words of mode `observe`.

Rules:
- A refusal is either a rule's, which denies, or nobody's: no rule allows it. So only the denies are looked through.
- The denies about a client are found once. MAX_CLIENTS of them are remembered, then all are forgotten.
- Of one request MAX_NAMED rights are looked up, the others are counted as `other`.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.explain import FittingRule, fitting_rules, reason_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from policies.access.rights import Grant
    from policies.custom_metrics import PolicyCounter
    from policies.requests import Peer
    from wire.authorization import Ask

MAX_CLIENTS: Final = 1_000
MAX_NAMED: Final = 100
MAX_NAME_CHARS: Final = 100
"""Of a name in words; a `Deny` has 250 characters."""
NO_RULE: Final = "none"
OTHER: Final = "other"


class _Who(NamedTuple):
    """What of a client the rules may be about."""

    user: str
    source: str
    proof: str
    client_id: str
    groups: frozenset[str]


class Refusals:
    """Counts them, with the labels `user` and `rule` (`rules[2]`, or NO_RULE)."""

    def __init__(
        self,
        grants: Sequence[Grant],
        teams: Mapping[str, Sequence[str]],
        counter: PolicyCounter,
    ) -> None:
        denies = [place for place, grant in enumerate(grants) if not grant.allows]
        self._places = denies
        self._denies = [grants[place] for place in denies]
        self._teams = teams
        self._counter = counter
        self._known: dict[_Who, tuple[FittingRule, ...]] = {}

    def count(self, peer: Peer, asks: Collection[Ask]) -> None:
        """Count what a client asked for and may not do."""
        about = self._about(peer)
        rules = Counter(self._rule(about, ask) for ask in islice(asks, MAX_NAMED))
        rules[OTHER] += len(asks) - rules.total()
        for rule, count in rules.items():
            if count:
                self._counter.add(count, peer.user, rule)

    def words(self, peer: Peer, ask: Ask) -> str:
        """Return the right, and which rule refuses it."""
        rule = self._rule(self._about(peer), ask)
        why = "no rule allows it" if rule == NO_RULE else f"{rule} denies it"
        name = ask.name.hex() if isinstance(ask.name, bytes) else ask.name
        kind = ask.kind.name.lower()
        return (
            f"{ask.operation.name} {kind} {'*' if name is None else name[:MAX_NAME_CHARS]}: {why}"
        )

    def _rule(self, about: tuple[FittingRule, ...], ask: Ask) -> str:
        if isinstance(ask.name, bytes):  # the id of a topic that no rule can name
            return NO_RULE
        place = reason_of(about, ask.kind, ask.name, ask.operation).place
        return NO_RULE if place is None else f"rules[{self._places[place]}]"

    def _about(self, peer: Peer) -> tuple[FittingRule, ...]:
        """Return the denies about a client."""
        who = _Who(peer.user, peer.principal_source, peer.proof, peer.client_id, peer.groups)
        found = self._known.get(who)
        if found is None:
            if len(self._known) >= MAX_CLIENTS:
                self._known.clear()
            found = self._known[who] = fitting_rules(self._denies, self._teams, peer)
        return found
