"""Quotas over the admin server: `GET` and `POST /v1/quotas`, and `GET /v1/quotas/usage`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.quota.entity import QuotaEntity
from policies.quota.sensors import BucketMetrics
from proxy.cli.quota_source import QuotaRow, batches, by_entity, send_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.admin.client import AdminClient
    from proxy.cli.quota_source import Ops

PATH = "/v1/quotas"
MAX_REQUEST_BYTES = 60_000
"""The admin server takes 64 KiB; the names around the changes need some."""


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

    def alter(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool = False) -> list[str]:
        """See QuotaSource."""
        parts = batches(changes, lambda *each: len(json.dumps(_row(*each))), MAX_REQUEST_BYTES)
        return send_all(parts, self._send, dry_run=dry_run)

    def _send(self, changes: Mapping[QuotaEntity, Ops], *, dry_run: bool) -> list[str]:
        rows = [_row(*each) for each in changes.items()]
        self._client.ask("POST", PATH, {"changes": rows, "dry_run": dry_run})
        return []


def _row(entity: QuotaEntity, ops: Ops) -> dict[str, object]:
    """Return the changes of one entity as JSON has them."""
    return {"user": entity.user, "client_id": entity.client_id, "limits": dict(ops)}


def _entity(row: Mapping[str, Any]) -> QuotaEntity:
    return QuotaEntity(row["user"], row["client_id"])


def _matches(entity: QuotaEntity, where: QuotaEntity, *, exactly: bool) -> bool:
    if exactly:
        return entity == where
    return where.user in (None, entity.user) and where.client_id in (None, entity.client_id)
