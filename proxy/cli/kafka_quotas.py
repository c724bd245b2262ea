"""Reads and changes the quotas of a running Sluice over the Kafka protocol (KIP-546).

- Sluice's own views (policies.quota.describe) have the origin of a quota and its usage. A broker has neither: its
  quotas are listed without an origin, and usage is refused.
- The changes of one request are made together, those of many entities by several requests. All are validated before
  the first is made.
- A refusal is a `RefusedError` with the message of the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from policies.quota.describe import ORIGIN, USAGE, named_entity
from policies.quota.entity import DEFAULT_NAME, KEYS, QuotaEntity, entity_text
from policies.quota.sensors import BucketMetrics
from proxy.admin.errors import RefusedError, UnreachableError
from proxy.cli.kafka_client import error_name
from wire.client_quotas import CLIENT_ID, USER, Match
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.cli.kafka_client import Connection, Response

VERSION: Final = 1
MAX_ELEMENTS: Final = 9_000
"""Array elements of one request; Sluice takes 10,000 (`wire.client_quotas`)."""
MAX_REFUSALS: Final = 10
"""Refused entities that a message names."""
FIGURES: Final = ("limit", "rate", "throttle_avg_ms", "throttle_max_ms", "waiting")

Ops: TypeAlias = "Mapping[str, float | None]"
"""Quotas of one entity to set, by key; None removes one."""


class QuotaRow(NamedTuple):
    """One quota in force."""

    entity: QuotaEntity
    key: str
    value: float
    """Requests or bytes per second."""
    origin: str | None
    """`file`, `quotas_file` or `override`; None for the quota of a broker."""


class KafkaQuotas:
    """The quotas of the Sluice, or the broker, at the other end of `connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def quotas(self, where: QuotaEntity, *, exactly: bool = False) -> list[QuotaRow]:
        """Return the quotas of entities with the names in `where`; with `exactly` those of that entity only.

        Raises UnreachableError or RefusedError, as every method does.
        """
        try:
            answer = self._describe(where, ORIGIN, exactly=exactly)
        except RefusedError as refused:
            if refused.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            answer = self._describe(where, None, exactly=exactly)
        found: list[QuotaRow] = []
        for entry in answer.entries or ():
            names = {part.entity_type: part.entity_name for part in entry.entity}
            origin = names.pop(ORIGIN, None)
            entity = _entity(names)
            if entity is not None:  # a broker may have quotas by IP address
                found += (QuotaRow(entity, each.key, each.value, origin) for each in entry.values)
        return sorted(found, key=_by_entity)

    def usage(self, where: QuotaEntity) -> tuple[list[BucketMetrics], str | None]:
        """Return the buckets in use, the busiest first, and a note if the list is cut.

        Raises RefusedError also if the server has no usage.
        """
        try:
            answer = self._describe(where, USAGE)
        except RefusedError as refused:
            if refused.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            message = "this server has no quota usage: is the policy quota in its chain?"
            raise RefusedError(refused.code, message) from refused
        rows: list[BucketMetrics] = []
        for entry in answer.entries or ():
            entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
            if entity is not None:
                values = {each.key: each.value for each in entry.values}
                rows += _usage(entity, values)
        return rows, answer.error_message

    def alter(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool = False) -> list[str]:
        """Set the quotas of each entity; a value of None removes one. Returns warnings about the changes.

        A server changes each entity as a whole, or not at all. If a later request fails, the error says how many
        entities were changed before.
        """
        parts = _parts(changes)
        warnings: list[str] = []
        if dry_run or len(changes) > 1:
            warnings = [each for part in parts for each in self._alter(part, dry_run=True)]
        if dry_run:
            return warnings
        made, warnings = 0, []
        for part in parts:
            try:
                warnings += self._alter(part, dry_run=False)
            except (RefusedError, UnreachableError) as error:
                if made:
                    words = f"(changed before: {made} of {len(changes)} entities; run it again)"
                    error.args = (f"{error} {words}",)
                raise
            made += len(part)
        return warnings

    def _alter(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool) -> list[str]:
        from kafka.protocol.admin import AlterClientQuotasRequest  # type: ignore[import-untyped] # noqa: PLC0415 - half a second

        entries = [
            (
                list(named_entity(entity)),
                [(key, value or 0.0, value is None) for key, value in ops.items()],
            )
            for entity, ops in changes.items()
        ]
        answer = self._connection.ask(
            AlterClientQuotasRequest(version=VERSION, entries=entries, validate_only=dry_run)
        )
        refused = [each for each in answer.entries if each.error_code]
        if refused:
            raise _refusals(refused, len(entries))
        return [each.error_message for each in answer.entries if each.error_message]

    def _describe(self, where: QuotaEntity, view: str | None, *, exactly: bool = False) -> Response:
        from kafka.protocol.admin import DescribeClientQuotasRequest  # noqa: PLC0415 - half a second

        components: list[tuple[str, int, str | None]] = [
            (kind, Match.DEFAULT if name is None else Match.EXACT, name)
            for kind, name in named_entity(where)
        ]
        if view is not None:
            components.append((view, Match.ANY, None))
        answer = self._connection.ask(
            DescribeClientQuotasRequest(version=VERSION, components=components, strict=exactly)
        )
        if answer.error_code:
            raise _refusal(answer)
        return answer


def _parts(changes: Mapping[QuotaEntity, Ops]) -> list[dict[QuotaEntity, Ops]]:
    """Return the changes in as few parts as possible; each part fits into one request."""
    parts: list[dict[QuotaEntity, Ops]] = []
    left = 0
    for entity, ops in changes.items():
        elements = 1 + len(named_entity(entity)) + len(ops)
        left -= elements
        if left < 0 or not parts:
            parts.append({})
            left = MAX_ELEMENTS - elements
        parts[-1][entity] = ops
    return parts


def _refusals(refused: Sequence[Response], asked: int) -> RefusedError:
    """Return the error about the refused entities; those of several name their entity, the first ten at most."""
    if asked == 1:
        return _refusal(refused[0])
    problems = [f"{_words(each)}: {_refusal(each)}" for each in refused[:MAX_REFUSALS]]
    more = len(refused) - len(problems)
    problems += [f"and {more} more"] if more else []
    words = f"{len(refused)} of {asked} entities"
    return RefusedError(refused[0].error_code, words, problems)


def _words(entry: Response) -> str:
    entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
    return "an entity" if entity is None else f"{{{entity_text(entity)}}}"


def _refusal(answer: Response) -> RefusedError:
    return RefusedError(answer.error_code, answer.error_message or error_name(answer.error_code))


def _entity(names: Mapping[str, str | None]) -> QuotaEntity | None:
    """Return the entity; None if it has a type other than user and client id."""
    if not names or not names.keys() <= {USER, CLIENT_ID}:
        return None
    user, client_id = (
        (names[kind] or DEFAULT_NAME) if kind in names else None for kind in (USER, CLIENT_ID)
    )
    return QuotaEntity(user, client_id)


def _usage(entity: QuotaEntity, values: Mapping[str, float]) -> list[BucketMetrics]:
    rows: list[BucketMetrics] = []
    for key in KEYS:
        limit, rate, average, most, waiting = (values.get(f"{key}.{each}") for each in FIGURES)
        if limit is not None and rate is not None:
            named = (entity.user or "", entity.client_id or "", key)
            whole = None if most is None else int(most)
            rows.append(BucketMetrics(*named, limit, rate, average, whole, int(waiting or 0)))
    return rows


def _by_entity(row: QuotaRow) -> tuple[object, ...]:
    """Return the sort key of a quota: users before client ids of all users, a default before names."""
    names = (row.entity.user, row.entity.client_id)
    return (*((name is None, name != DEFAULT_NAME, name or "") for name in names), row.key)
