"""Chooses the quotas: as few rules as cover every name without granting much more than it needs.

The algorithm, for each kind of limit by itself:

1. The level. Where clients authenticate, names are users, because a limit of a user outranks one of a client id, and a
   client id is a claim. Else they are client ids. `both` makes each pair of user and client id a name.
2. The limit of a name is its need (`pipeline.recommend.needs`) times the headroom, rounded up, at least the smallest
   rate.
3. Names are sorted by their need, the largest first, then by name. The first k get a rule of their own, and the default
   rule has the need of the next one: it covers all others, and none of them needs more. k is the smallest number for
   which the rules together grant at most SLACK times what all names need (the default counts once for each name that it
   covers), or `max_rules`. So a million quiet client ids and three busy ones are four rules.
4. A user with a rule of its own and several client ids: if the others together need at most SPLIT of the user's need
   without the busiest one, that one gets a rule (user and client id), and the user's own rule is for the rest.

Equal input gives equal rules.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import ANONYMOUS
from policies.quota.entity import DEFAULT_NAME, REQUEST_RATE, QuotaEntity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SLACK: Final = 1.25
SPLIT: Final = 0.5
MAX_RULES: Final = 100
MIN_RATE: Final = 1.0
MIN_BYTE_RATE: Final = 65_536.0


class RecordedNeed(NamedTuple):
    """A row of `pipeline.recommend.needs`, without its limit."""

    user: str | None
    client_id: str | None
    client_ids: int
    value: float
    fitted: float | None
    mean: float
    max: float
    seconds: int
    instances: int
    skew: float

    def entity(self) -> QuotaEntity:
        """Return the entity of a rule for it. A pair without a client id is its user, as in the policy."""
        user = ANONYMOUS if self.user == "" else self.user
        return QuotaEntity(user, self.client_id or None)


class Sizing(NamedTuple):
    """How a need becomes a limit."""

    headroom: float = 1.1
    min_rate: float = MIN_RATE
    min_byte_rate: float = MIN_BYTE_RATE
    max_rules: int = MAX_RULES

    def floor(self, key: str) -> float:
        """Return the smallest limit of this kind."""
        return self.min_rate if key == REQUEST_RATE else self.min_byte_rate

    def limit(self, key: str, rate: float) -> float:
        """Return the limit for a rate that is to pass."""
        return float(ceil(max(rate * self.headroom, self.floor(key))))


class Measured(NamedTuple):
    """The needs for one kind of limit: the largest ones, and the sums over all."""

    largest: Sequence[RecordedNeed]
    """One more than may have rules of their own, if there are so many; the largest first."""
    names: int
    needed: float
    """The sum of the limits that all names need."""
    parts: Mapping[str, tuple[RecordedNeed, RecordedNeed]]
    """The busiest client id and the rest of it, for users among `largest` that have several."""


class QuotaRule(NamedTuple):
    """One recommended limit and its reason."""

    entity: QuotaEntity
    key: str
    limit: float
    fitted: float | None
    """The limit from the first part of the time only; None: the entity was not there then."""
    need: RecordedNeed
    covers: int
    """The number of names that it is for."""
    reason: str


def choose(key: str, measured: Measured, sizing: Sizing, level: str) -> Iterator[QuotaRule]:
    """Yield the rules for one kind of limit, the default rule last."""
    largest = measured.largest
    if not largest:
        return
    limits = [sizing.limit(key, need.value) for need in largest]
    own = named_rules(limits, measured.names, measured.needed, sizing.max_rules)
    for need, limit in zip(largest[:own], limits, strict=False):
        parts = measured.parts.get(need.user or "") if level == "user" else None
        if parts is not None and parts[1].value <= SPLIT * need.value:
            busiest, rest = parts
            yield _rule(key, busiest, sizing, 1, f"most of {_words(need)}")
            others = f"its {rest.client_ids} other client ids"
            yield _rule(key, rest, sizing, 1, others if rest.client_ids > 1 else others[:-1])
        else:
            yield QuotaRule(
                need.entity(), key, limit, _fitted(key, need, sizing), need, 1, "its own need"
            )
    covered = measured.names - own
    if covered > 0:
        need = largest[own]
        entity = _default(level)
        fitted = max((each.fitted or 0.0 for each in largest[own:]), default=0.0)
        need = need._replace(fitted=fitted or None)
        words = f"covers {covered} {_kind(level)}{'s' * (covered > 1)}; {_words(need)} needs most"
        yield QuotaRule(entity, key, limits[own], _fitted(key, need, sizing), need, covered, words)


def named_rules(limits: Sequence[float], names: int, needed: float, max_rules: int) -> int:
    """Return how many of the largest limits get a rule of their own; the default has the next one."""
    granted = 0.0
    most = min(max_rules, names - 1, len(limits) - 1)
    for own in range(most):
        if granted + (names - own) * limits[own] <= SLACK * needed:
            return own
        granted += limits[own]
    return max(most, 0)


def _rule(key: str, need: RecordedNeed, sizing: Sizing, covers: int, reason: str) -> QuotaRule:
    limit = sizing.limit(key, need.value)
    return QuotaRule(need.entity(), key, limit, _fitted(key, need, sizing), need, covers, reason)


def _fitted(key: str, need: RecordedNeed, sizing: Sizing) -> float | None:
    return None if need.fitted is None else sizing.limit(key, need.fitted)


def _default(level: str) -> QuotaEntity:
    return QuotaEntity(
        DEFAULT_NAME if level in {"user", "both"} else None,
        DEFAULT_NAME if level in {"client_id", "both"} else None,
    )


def _kind(level: str) -> str:
    return {"user": "user", "client_id": "client id", "both": "client"}[level]


def _words(need: RecordedNeed) -> str:
    names = (need.user, need.client_id)
    return " and ".join(name or ANONYMOUS for name in names if name is not None)
