"""The interface of `sluice quotas` to a server: over Kafka (`kafka_quotas`) or an admin server (`admin_quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from policies.quota.entity import DEFAULT_NAME, QuotaEntity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.quota.sensors import BucketMetrics


class QuotaRow(NamedTuple):
    """One quota in force."""

    entity: QuotaEntity
    key: str
    value: float
    """Requests or bytes per second."""
    origin: str | None
    """`file`, `quotas_file` or `override`; None for the quota of a broker."""


class QuotaSource(Protocol):
    """A connected server. Each call raises UnreachableError or RefusedError."""

    def quotas(self, where: QuotaEntity, *, exactly: bool = False) -> list[QuotaRow]:
        """Return the quotas of entities with the names in `where`; with `exactly` those of that entity only."""

    def usage(self, where: QuotaEntity) -> tuple[list[BucketMetrics], str | None]:
        """Return the buckets in use, the busiest first, and a note if the list is cut."""

    def alter(
        self, entity: QuotaEntity, ops: Mapping[str, float | None], *, dry_run: bool = False
    ) -> list[str]:
        """Set the quotas in `ops`; a value of None removes one. Returns warnings about the change."""


def by_entity(row: QuotaRow) -> tuple[object, ...]:
    """Return the sort key of a quota: users before client ids of all users, a default before names."""
    names = (row.entity.user, row.entity.client_id)
    return (*((name is None, name != DEFAULT_NAME, name or "") for name in names), row.key)
