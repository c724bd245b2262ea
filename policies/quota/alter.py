"""Evaluates an AlterClientQuotas: the changes it asks for, or the reason of a refusal.

- As in Kafka's `ClientQuotaControlManager`, each alteration is judged by itself and as a whole: one bad key, and
  none of its keys changes.
- Alterations are judged against the quotas before the request; this module changes nothing.
- Messages are Kafka's where Kafka has one. Stricter than Kafka: NaN and infinity, an entity or an entity's type
  named twice, the name `<default>`, and the removal of a limit that only a file has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.quota.entity import DEFAULT_NAME, KEYS, QuotaEntity, check_name, check_value
from wire.client_quotas import CLIENT_ID, IP, USER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.quota.entity import ClientQuotas
    from wire.client_quotas import Alteration, Entity

REQUEST_PERCENTAGE: Final = "request_percentage"
_FILES: Final[Mapping[str, str]] = {"file": "config file", "quotas_file": "quotas file"}


class Change(NamedTuple):
    """One live quota to set, or to remove if the value is None."""

    entity: QuotaEntity
    key: str
    value: float | None


class AlterResult(NamedTuple):
    """One entity as it was named, and either the changes or the message of an INVALID_REQUEST."""

    entity: Entity
    changes: tuple[Change, ...]
    message: str | None = None


def evaluate(entries: Sequence[Alteration], quotas: ClientQuotas) -> list[AlterResult]:
    """Return one result for each entity of the request, in its order. An entry without changes is valid."""
    by_entity: dict[frozenset[tuple[str, str | None]], list[Alteration]] = {}
    for entry in entries:
        by_entity.setdefault(frozenset(entry.entity), []).append(entry)
    judged: list[AlterResult] = []
    for first, *more in by_entity.values():
        entity = quota_entity(first.entity)
        if more:
            judged.append(
                AlterResult(first.entity, (), f"Ignoring duplicate entity {_words(first.entity)}")
            )
        elif isinstance(entity, str):
            judged.append(AlterResult(first.entity, (), entity))
        else:
            judged.append(_evaluate_ops(first, entity, quotas))
    return judged


def _evaluate_ops(entry: Alteration, entity: QuotaEntity, quotas: ClientQuotas) -> AlterResult:
    overrides = quotas.overrides.get(entity, {})
    changes: list[Change] = []
    seen: set[str] = set()
    for key, value in entry.ops:
        message = None
        if key in seen:
            message = f"Duplicate quota key {key}"
        elif key not in KEYS:
            message = _unknown_key(key)
        elif value is not None:
            wrong = check_value(key, value)
            message = f"Quota {key} {wrong}" if wrong else None
        elif key not in overrides and (origin := quotas.origin_of(entity, key)) is not None:
            message = (
                f"{key} of {_words(entry.entity)} is set in Sluice's {_FILES[origin]}, and can be "
                "removed only there"
            )
        if message is not None:
            return AlterResult(entry.entity, (), message)
        seen.add(key)
        if value != overrides.get(key):
            changes.append(Change(entity, key, value))
    return AlterResult(entry.entity, tuple(changes))


def quota_entity(entity: Entity) -> QuotaEntity | str:
    """Return the entity that is named, or in words why it is invalid."""
    if not entity:
        return "Invalid empty client quota entity"
    names: dict[str, str] = {}
    for kind, name in entity:
        if kind in names:
            return f"Invalid client quota entity, duplicate entity entry {kind}"
        if kind not in {USER, CLIENT_ID, IP}:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
        if name == DEFAULT_NAME:
            return f"{DEFAULT_NAME} is not a valid {kind}: to name the default, give no name"
        message = None if name is None else check_name(name)
        if message is not None:
            return f"The {kind} {message}"
        names[kind] = DEFAULT_NAME if name is None else name
    if IP in names:
        if len(names) > 1:
            return (
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        return "Sluice keeps no quotas by ip; the setting forward_other_keys forwards them to the broker"
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID))


def _unknown_key(key: str) -> str:
    if key == REQUEST_PERCENTAGE:
        return (
            f"Invalid configuration key {key}: Sluice's own is request_rate, requests per second; "
            "the setting forward_other_keys forwards the broker's keys to it"
        )
    return f"Invalid configuration key {key}"


def _words(entity: Entity) -> str:
    return ", ".join(
        f"the default {kind}" if name is None else f"{kind} {name!r}" for kind, name in entity
    )
