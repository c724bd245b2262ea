"""Quotas over the admin server: `GET`, `PUT` and `DELETE /v1/quotas`, and `GET /v1/quotas/usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from policies.quota.entity import QuotaEntity
from policies.quota.sensors import BucketMetrics
from proxy.cli.quota_source import QuotaRow, by_entity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.admin.client import AdminClient

PATH = "/v1/quotas"


class AdminQuotas:
    """A QuotaSource that asks the admin server of `client`."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def quotas(self, where: QuotaEntity, *, exactly: bool = False) -> list[QuotaRow]:
        """See QuotaSource."""
        found = [
            QuotaRow(_entity(each), each["quota"], each["per_second"], each["origin"])
            for each in self._client.get(PATH)["quotas"]
        ]
        return sorted(
            (each for each in found if _matches(each.entity, where, exactly=exactly)),
            key=by_entity,
        )

    def usage(self, where: QuotaEntity) -> tuple[list[BucketMetrics], str | None]:
        """See QuotaSource."""
        answer = self._client.get(f"{PATH}/usage")
        rows = [
            BucketMetrics(
                each["user"] or "",
                each["client_id"] or "",
                *(each[name] for name in ("quota", *BucketMetrics._fields[3:])),
            )
            for each in answer["usage"]
            if _matches(_entity(each), where, exactly=False)
        ]
        cut = len(answer["usage"]) < answer["total"]
        note = f"The busiest {len(answer['usage'])} of {answer['total']}." if cut else None
        return rows, note

    def alter(
        self, entity: QuotaEntity, ops: Mapping[str, float | None], *, dry_run: bool = False
    ) -> list[str]:
        """See QuotaSource. Quotas are removed one by one. Raises click.UsageError for a dry run."""
        if dry_run:
            raise click.UsageError("--dry-run works over Kafka only: give --bootstrap HOST:PORT.")
        named = {"user": entity.user, "client_id": entity.client_id}
        whose = {kind: name for kind, name in named.items() if name is not None}
        limits = {
            key: int(value) if value.is_integer() else value
            for key, value in ops.items()
            if value is not None
        }
        if limits:
            self._client.ask("PUT", f"{PATH}?{urlencode(whose)}", limits)
        for key in ops.keys() - limits.keys():
            self._client.ask("DELETE", f"{PATH}?{urlencode(whose | {'quota': key})}")
        return []


def _entity(row: Mapping[str, Any]) -> QuotaEntity:
    return QuotaEntity(row["user"], row["client_id"])


def _matches(entity: QuotaEntity, where: QuotaEntity, *, exactly: bool) -> bool:
    if exactly:
        return entity == where
    return where.user in (None, entity.user) and where.client_id in (None, entity.client_id)
