"""The answers to DescribeClientQuotas (Kafka: `ClientQuotasImage.describe`).

- A filter has components of entity types `user` and `client-id`: an exact name, the default, or any. Unless it is
  strict, entities with further types match too.
- Two entity types of Sluice choose another view; they match nothing themselves, and take only "any": `sluice-origin`
  adds to each entity the origin of its limits (`file`, `quotas_file`, or `override` for a live change), and
  `sluice-usage` lists the buckets in use instead: for each key `<key>.limit`, `.rate` (per second), `.throttle_avg_ms`
  and `.throttle_max_ms` (of the last minute, absent when there was none), `.waiting`.
- A list of usage is cut to the busiest buckets, and its message says so. Buckets that clients share because there are
  too many have the name of their default; the busiest stands for them.
"""

from __future__ import annotations

from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from wire.client_quotas import CLIENT_ID, IP, USER, DescribedEntity, Match
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.quota.entity import QuotaLimit
    from policies.quota.sensors import BucketMetrics
    from wire.client_quotas import Component, Entity

ORIGIN: Final = "sluice-origin"
USAGE: Final = "sluice-usage"
USAGE_ENTRIES: Final = 1000

_VIEWS: Final = frozenset({ORIGIN, USAGE})
_KINDS: Final = frozenset({USER, CLIENT_ID, IP, *_VIEWS})
_HOW: Final = {Match.EXACT: "EXACT", Match.DEFAULT: "DEFAULT", Match.ANY: "SPECIFIED"}


class InvalidFilter(NamedTuple):
    """The error code and message for a filter that cannot be used."""

    code: ErrorCode
    message: str


class Filter(NamedTuple):
    """A filter that can be used."""

    conditions: tuple[tuple[str, Match, str | None], ...]
    """(entity type, match, name); the name of the default is None."""
    strict: bool
    view: str
    """`ORIGIN`, `USAGE`, or empty for Kafka's own view."""

    def matches(self, entity: Entity) -> bool:
        """Return whether the filter asks for this entity."""
        names = dict(entity)
        if self.strict and len(names) != len(self.conditions):
            return False
        for kind, how, name in self.conditions:
            if kind not in names or (how is not Match.ANY and names[kind] != name):
                return False
        return bool(self.conditions) or not self.strict


def parse_filter(components: Iterable[Component], *, strict: bool) -> Filter | InvalidFilter:
    """Return the filter, or Kafka's refusal."""
    conditions: dict[str, tuple[str, Match, str | None]] = {}
    view = ""
    for kind, match_type, name in components:
        if not kind:
            return _invalid("Invalid empty entity type.")
        if kind in conditions or kind == view:
            return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _KINDS:
            return InvalidFilter(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match_type not in _HOW:
            return _invalid(f"Unknown match type {match_type}")
        how = Match(match_type)
        if (how is Match.EXACT) != (name is not None):
            mistake = (
                "but set match string to null"
                if name is None
                else "but also specified a match string"
            )
            return _invalid(f"Request specified MATCH_TYPE_{_HOW[how]}, {mistake}.")
        if kind not in _VIEWS:
            conditions[kind] = (kind, how, name)
        elif view or how is not Match.ANY:
            return _invalid(f"{kind} takes any name, and no other view beside it.")
        else:
            view = kind
    if IP in conditions and (len(conditions) > 1 or view):
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return Filter(tuple(conditions.values()), strict, view)


def group_by_entity(limits: Iterable[QuotaLimit]) -> list[tuple[Entity, list[QuotaLimit]]]:
    """Return the limits of each entity together; the order stays."""
    found: dict[QuotaEntity, list[QuotaLimit]] = {}
    for limit in limits:
        found.setdefault(limit.entity, []).append(limit)
    return [(named_entity(entity), own) for entity, own in found.items()]


def describe_quotas(
    groups: Iterable[tuple[Entity, list[QuotaLimit]]], asked: Filter
) -> list[DescribedEntity]:
    """Return the entries that the filter asks for, in the order of `groups`."""
    entries: list[DescribedEntity] = []
    for entity, limits in groups:
        if not asked.matches(entity):
            continue
        if asked.view != ORIGIN:
            entries.append(DescribedEntity(entity, [(each.key, each.value) for each in limits]))
            continue
        by_origin: dict[str, list[tuple[str, float]]] = {}
        for each in limits:
            by_origin.setdefault(each.origin, []).append((each.key, each.value))
        entries += (
            DescribedEntity((*entity, (ORIGIN, origin)), values)
            for origin, values in by_origin.items()
        )
    return entries


def describe_usage(
    rows: Iterable[BucketMetrics], asked: Filter
) -> tuple[list[DescribedEntity], str | None]:
    """Return the buckets in use that the filter asks for, the busiest first, and a message if there are more."""
    found: dict[tuple[str, str], dict[str, BucketMetrics]] = {}
    for row in rows:
        by_key = found.setdefault(row[:2], {})
        seen = by_key.get(row.key)  # shared buckets have the same name
        if seen is None or _utilization(row) > _utilization(seen):
            by_key[row.key] = row
    wanted: list[tuple[float, Entity, dict[str, BucketMetrics]]] = []
    for (user, client_id), by_key in found.items():
        entity = named_entity(QuotaEntity(user or None, client_id or None))
        if asked.matches(entity):
            wanted.append((max(map(_utilization, by_key.values())), entity, by_key))
    busiest = nlargest(USAGE_ENTRIES, wanted, key=itemgetter(0))
    entries = [
        DescribedEntity(entity, [pair for row in by_key.values() for pair in _usage_values(row)])
        for _, entity, by_key in busiest
    ]
    cut = len(wanted) > USAGE_ENTRIES
    return entries, f"The busiest {USAGE_ENTRIES} of {len(wanted)}." if cut else None


def named_entity(entity: QuotaEntity) -> Entity:
    """Return an entity as the protocol names it."""
    pairs = ((USER, entity.user), (CLIENT_ID, entity.client_id))
    return tuple(
        (kind, None if name == DEFAULT_NAME else name) for kind, name in pairs if name is not None
    )


def _usage_values(row: BucketMetrics) -> list[tuple[str, float]]:
    values = (
        ("limit", row.limit),
        ("rate", row.rate),
        ("throttle_avg_ms", row.throttle_avg_ms),
        ("throttle_max_ms", row.throttle_max_ms),
        ("waiting", row.waiting),
    )
    return [(f"{row.key}.{name}", value) for name, value in values if value is not None]


def _utilization(row: BucketMetrics) -> float:
    """Return the used part of the limit."""
    return row.rate / row.limit


def _invalid(message: str) -> InvalidFilter:
    return InvalidFilter(ErrorCode.INVALID_REQUEST, message)
