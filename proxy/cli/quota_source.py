"""The interface of `sluice quotas` to a server: over Kafka (`kafka_quotas`) or an admin server (`admin_quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from proxy.admin.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.quota.sensors import BucketMetrics


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


class Send(Protocol):
    """One request for changes."""

    def __call__(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool) -> list[str]:
        """Make the changes; return warnings. Raises UnreachableError or RefusedError."""


class QuotaSource(Protocol):
    """A connected server. Each call raises UnreachableError or RefusedError."""

    def quotas(self, where: QuotaEntity, *, exactly: bool = False) -> list[QuotaRow]:
        """Return the quotas of entities with the names in `where`; with `exactly` those of that entity only."""

    def usage(self, where: QuotaEntity) -> tuple[list[BucketMetrics], str | None]:
        """Return the buckets in use, the busiest first, and a note if the list is cut."""

    def alter(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool = False) -> list[str]:
        """Set the quotas of each entity; a value of None removes one. Returns warnings about the changes.

        All are validated before the first is set. Those of one request are made together.
        """


def batches(
    changes: Mapping[QuotaEntity, Ops], size: Callable[[QuotaEntity, Ops], int], largest: int
) -> list[dict[QuotaEntity, Ops]]:
    """Return the changes in as few parts as possible; the sizes of a part's entities sum up to at most `largest`."""
    parts: list[dict[QuotaEntity, Ops]] = []
    left = 0
    for entity, ops in changes.items():
        left -= size(entity, ops)
        if left < 0 or not parts:
            parts.append({})
            left = largest - size(entity, ops)
        parts[-1][entity] = ops
    return parts


def send_all(
    parts: Sequence[Mapping[QuotaEntity, Ops]],
    send: Send,
    *,
    dry_run: bool,
) -> list[str]:
    """Validate the changes of all parts, then make them; `send` makes one request. Returns its warnings.

    Raises RefusedError or UnreachableError, which says so if some parts were made before.
    """
    entities = sum(map(len, parts))
    warnings: list[str] = []
    if dry_run or entities > 1:
        warnings = [warning for part in parts for warning in send(part, dry_run=True)]
    if dry_run:
        return warnings
    made, warnings = 0, []
    for part in parts:
        try:
            warnings += send(part, dry_run=False)
        except (RefusedError, UnreachableError) as error:
            if made:
                error.args = (
                    f"{error} (changed before: {made} of {entities} entities; run it again)",
                )
            raise
        made += len(part)
    return warnings


def by_entity(row: QuotaRow) -> tuple[object, ...]:
    """Return the sort key of a quota: users before client ids of all users, a default before names."""
    names = (row.entity.user, row.entity.client_id)
    return (*((name is None, name != DEFAULT_NAME, name or "") for name in names), row.key)
