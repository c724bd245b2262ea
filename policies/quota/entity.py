"""Quota entities, Kafka's eight levels of precedence, and the table of limits.

Rules (KIP-55, KIP-124; Kafka: `ClientQuotaManager`):
- The first of eight levels with a limit for this key wins, each key by itself: user+client, user+<default>, user,
  <default>+client, <default>+<default>, <default> user, client, <default> client.
- The winner determines which clients share a bucket (the tags): a user's limit is one bucket for all its client ids, a
  client id's limit one for all users, a default limit one for each entity that it is made for.
- A client without a client id matches no client id: only the levels of its user apply.
- There are three layers, by precedence: live overrides, the config file, the quotas file. Removing an override restores
  the limit of the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DEFAULT_NAME: Final = "<default>"
"""The name that stands for every entity without a limit of its own."""

REQUEST_RATE: Final = "request_rate"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
KEYS: Final = (REQUEST_RATE, PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
"""Requests, bytes and bytes per second."""

MAX_NAME_CHARS: Final = 1024
MIN_VALUE: Final = 0.000001
"""One request in eleven days; smaller values would only lead to infinities."""
MAX_VALUE: Final = 1e12
"""More than any cluster needs; sums and products of larger values lose their digits, up to NaN."""

Origin = Literal["override", "file", "quotas_file"]
_ORIGINS: Final[tuple[Origin, ...]] = ("override", "file", "quotas_file")
"""The layers: a live change, the config file, the quotas file; the first with a limit wins."""

_WHOLE: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})

_NAMED: Final = "<named>"
_Level = tuple[str | None, str | None]
_LEVELS: Final[tuple[_Level, ...]] = (
    (_NAMED, _NAMED),
    (_NAMED, DEFAULT_NAME),
    (_NAMED, None),
    (DEFAULT_NAME, _NAMED),
    (DEFAULT_NAME, DEFAULT_NAME),
    (DEFAULT_NAME, None),
    (None, _NAMED),
    (None, DEFAULT_NAME),
)
"""User and client id of the eight levels; the first level with a limit wins."""

Tags = tuple[str, str]
"""User and client id of a bucket, as in Kafka's metrics; "" = the bucket does not distinguish it."""


@dataclass(frozen=True, slots=True, order=True)
class QuotaEntity:
    """The entity of a limit. None matches anything, DEFAULT_NAME is the default; at least one field is not None."""

    user: str | None = None
    client_id: str | None = None


class ResolvedLimit(NamedTuple):
    """The limit that holds for a client."""

    limit: float
    tags: Tags
    entity: QuotaEntity
    is_default: bool


class QuotaLimit(NamedTuple):
    """One limit of the table."""

    entity: QuotaEntity
    key: str
    value: float
    origin: Origin


def check_value(key: str, value: float) -> str | None:
    """Return in words why `value` is invalid as the limit `key`; None if it is valid."""
    if key not in KEYS:
        return f"has the unknown key {key!r}, expected one of {', '.join(KEYS)}"
    if not isfinite(value):
        return "must be a finite number"
    if value <= 0:
        return "must be greater than 0"
    if key in _WHOLE and value != int(value):
        return "must be a whole number of bytes per second"
    if value < MIN_VALUE:
        return f"must be at least {MIN_VALUE:f}"
    return None if value <= MAX_VALUE else f"must be at most {MAX_VALUE:.0f}"


def check_name(name: str) -> str | None:
    """Return in words why `name` is invalid as a user or client id; None if it is valid."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_NAME_CHARS:
        return f"must not be longer than {MAX_NAME_CHARS} characters"
    return None


class ClientQuotas:
    """The table of limits. `rev` grows with every change."""

    def __init__(self) -> None:
        self.rev = 0
        self._digest = 0  # the sum of the hashes of all limits: a change adds and subtracts one
        self._layers: dict[Origin, dict[QuotaEntity, dict[str, float]]] = {
            origin: {} for origin in _ORIGINS
        }
        self._tables: dict[str, dict[tuple[str | None, str | None], float]] = {
            key: {} for key in KEYS
        }
        self._levels: dict[str, tuple[_Level, ...]] = dict.fromkeys(KEYS, ())
        """The levels that have a limit, in order of precedence."""
        self._counts: dict[str, dict[_Level, int]] = {
            key: dict.fromkeys(_LEVELS, 0) for key in KEYS
        }
        """How many limits each level has."""

    @property
    def overrides(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The limits that were set live, by entity and key."""
        return self._layers["override"]

    @property
    def in_quotas_file(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The limits of the quotas file, by entity and key, also those that do not hold."""
        return self._layers["quotas_file"]

    def origin_of(self, entity: QuotaEntity, key: str) -> Origin | None:
        """Return the origin of the limit of exactly this entity; None if it has none."""
        layers = self._layers
        return next((each for each in _ORIGINS if key in layers[each].get(entity, ())), None)

    def set(
        self, entity: QuotaEntity, key: str, value: float | None, origin: Origin = "file"
    ) -> None:
        """Set a limit of one of the files; None removes it. Raises ValueError if `check_value` would refuse it."""
        self._put(origin, entity, key, value)

    def set_override(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        """Set a live limit; None restores the files' limit. Raises ValueError if `check_value` would refuse it."""
        self._put("override", entity, key, value)

    def take_overrides(self, other: ClientQuotas, *, replace_all: bool) -> None:
        """Set the overrides of `other`; if `replace_all`, also remove those that it lacks.

        Equal entities cost one comparison.
        """
        ours, theirs = self._layers["override"], other.overrides
        for entity, limits in theirs.items():
            if ours.get(entity) != limits:
                for key, value in limits.items():
                    self.set_override(entity, key, value)
        if replace_all:
            for entity in [each for each, limits in ours.items() if theirs.get(each) != limits]:
                for key in ours[entity].keys() - theirs.get(entity, {}).keys():
                    self.set_override(entity, key, None)

    def supersede(self, other: ClientQuotas) -> None:
        """Raise `rev` above that of `other`, so that limits of `other` are not mistaken for these."""
        self.rev = max(self.rev, other.rev) + 1

    def get(self, entity: QuotaEntity, key: str) -> float | None:
        """Return the limit of exactly this entity; None if it has none."""
        return self._tables[key].get((entity.user, entity.client_id))

    def digest(self) -> str:
        """Return a text that is equal for equal limits, in every process, and differs when any limit differs."""
        return f"{self._digest % (1 << 64):016x}"

    def any(self, key: str) -> bool:
        """Return whether any entity has a limit of this kind."""
        return bool(self._tables[key])

    def resolve(self, key: str, user: str, client_id: str) -> ResolvedLimit | None:
        """Return the limit for requests of `user` by `client_id`; None if there is none."""
        return self._walk(key, self._levels[key], user, client_id)

    def ranking(self, key: str, user: str, client_id: str) -> list[ResolvedLimit]:
        """Return every limit that fits this client, by precedence: the first holds and outranks the others."""
        found: list[ResolvedLimit] = []
        for level in self._levels[key]:
            resolved = self._walk(key, (level,), user, client_id)
            if resolved is not None:
                found.append(resolved)
        return found

    def maybe_outranked(self, entity: QuotaEntity, key: str) -> QuotaEntity | None:
        """Return the entity whose limit wins over this one's for every client; None if this one holds for some.

        Only limits without a user can be outranked so: any limit of `user: <default>` comes before them.
        """
        if entity.user is not None:
            return None
        for client_id in dict.fromkeys((entity.client_id, DEFAULT_NAME, None)):
            if (DEFAULT_NAME, client_id) in self._tables[key]:
                return QuotaEntity(DEFAULT_NAME, client_id)
        return None

    def limit_of(self, key: str, tags: Tags) -> ResolvedLimit | None:
        """Return the limit of the bucket with these tags, for any of its clients (Kafka: `quotaLimit`)."""
        user, client_id = tags
        levels = [
            (user_is, client_is)
            for user_is, client_is in self._levels[key]
            if bool(user) == (user_is is not None) and bool(client_id) == (client_is is not None)
        ]
        return self._walk(key, levels, user, client_id)

    def _walk(
        self, key: str, levels: Iterable[_Level], user: str, client_id: str
    ) -> ResolvedLimit | None:
        for user_is, client_is in levels:
            if client_is is not None and not client_id:
                continue
            if (user_is is _NAMED and user == DEFAULT_NAME) or (
                client_is is _NAMED and client_id == DEFAULT_NAME
            ):
                continue  # a principal or client with this literal name is not the default
            whose = (
                user if user_is is _NAMED else user_is,
                client_id if client_is is _NAMED else client_is,
            )
            limit = self._tables[key].get(whose)
            if limit is not None:
                tags = ("" if user_is is None else user, "" if client_is is None else client_id)
                return ResolvedLimit(
                    limit, tags, QuotaEntity(*whose), DEFAULT_NAME in (user_is, client_is)
                )
        return None

    def __iter__(self) -> Iterator[QuotaLimit]:
        """Yield every limit that holds, by entity and key."""
        for entity in sorted(set().union(*self._layers.values()), key=_order_of):
            for key in KEYS:
                origin = self.origin_of(entity, key)
                if origin is not None:
                    yield QuotaLimit(entity, key, self._layers[origin][entity][key], origin)

    def _put(self, layer: Origin, entity: QuotaEntity, key: str, value: float | None) -> None:
        wrong = None if value is None else check_value(key, value)
        if key not in KEYS or wrong:
            raise ValueError(
                f"quota {key} {wrong or 'is unknown, expected one of ' + ', '.join(KEYS)}"
            )
        if entity.user is None and entity.client_id is None:
            raise ValueError("quota entity is empty, expected a user, a client id, or both")
        values = self._layers[layer].setdefault(entity, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = float(value)
        if not values:
            del self._layers[layer][entity]
        origin = self.origin_of(entity, key)
        self._store(entity, key, None if origin is None else self._layers[origin][entity][key])
        self.rev += 1

    def _store(self, entity: QuotaEntity, key: str, limit: float | None) -> None:
        """Make `limit` the one in force, in constant time: 4,000 limits are 4,000 such steps."""
        place = (entity.user, entity.client_id)
        table = self._tables[key]
        before = table.get(place)
        if before is not None:
            self._digest -= _hash_of(entity, key, before)
        if limit is None:
            table.pop(place, None)
        else:
            table[place] = limit
            self._digest += _hash_of(entity, key, limit)
        more = (limit is not None) - (before is not None)
        if more:
            counts = self._counts[key]
            level = (_kind(entity.user), _kind(entity.client_id))
            counts[level] += more
            if counts[level] == (more > 0):  # the first of its level, or none is left
                self._levels[key] = tuple(level for level in _LEVELS if counts[level])


def entity_text(entity: QuotaEntity) -> str:
    """Return an entity as in the config file: `user: alice, client_id: <default>`."""
    pairs = (("user", entity.user), ("client_id", entity.client_id))
    return ", ".join(f"{kind}: {name}" for kind, name in pairs if name is not None)


def outranked_warning(key: str, winner: QuotaEntity) -> str:
    """Return the warning about a limit that holds for no client."""
    return (
        f"it holds for no client: the {key} of {{{entity_text(winner)}}} outranks it for every client "
        "(Kafka's order: user and client id, user, client id)"
    )


def tags_text(tags: Tags) -> str:
    """Return a bucket's tags for people, with the names of Kafka's metric tags: `user=alice,client-id=report`."""
    pairs = zip(("user", "client-id"), tags, strict=True)
    return ",".join(f"{kind}={name}" for kind, name in pairs if name)


def _hash_of(entity: QuotaEntity, key: str, limit: float) -> int:
    text = f"{entity.user!r}\n{entity.client_id!r}\n{key}\n{limit!r}"
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


def _kind(name: str | None) -> str | None:
    return name if name is None or name == DEFAULT_NAME else _NAMED


def _order_of(entity: QuotaEntity) -> tuple[str, str]:
    return entity.user or "", entity.client_id or ""
