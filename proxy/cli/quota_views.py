"""Shows quotas and their usage as columns or as JSON.

- Plain output has no colour; in a pipe each row is one line (`proxy.cli.tables`).
- JSON has the same figures, with names unchanged and null where an entity has no such part.
- A missing figure is a dash; the default is `<default>`, as in the config file.
- Control characters in names, which clients choose, are shown as escapes. JSON has escapes of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from policies.escaping import escaped
from proxy.cli.views import format_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.quota.sensors import BucketMetrics
    from proxy.cli.kafka_quotas import QuotaRow

QUOTA_COLUMNS: Final = ("user", "client id", "quota", "per second", "from")
USAGE_COLUMNS: Final = (
    "user", "client id", "quota", "limit/s", "used/s", "used", "throttled ms avg", "max", "waiting",
)  # fmt: skip
ORIGINS: Final = {
    "file": "config file",
    "quotas_file": "quotas file",
    "override": "live",
    None: "-",
}


def quota_cells(quota: QuotaRow) -> tuple[str, ...]:
    """Return the cells of a quota, in the order of QUOTA_COLUMNS."""
    entity, key, value, origin = quota
    named = (format_name(entity.user), format_name(entity.client_id))
    return (*named, key, number(value), ORIGINS.get(origin, str(origin)))


def usage_cells(row: BucketMetrics) -> tuple[str, ...]:
    """Return the cells of a bucket, in the order of USAGE_COLUMNS."""
    return (
        format_name(row.user),
        format_name(row.client_id),
        row.key,
        number(row.limit),
        number(round(row.rate, 1)),
        f"{row.rate / row.limit:.0%}",
        "-" if row.throttle_avg_ms is None else f"{row.throttle_avg_ms:.0f}",
        "-" if row.throttle_max_ms is None else str(row.throttle_max_ms),
        str(row.waiting) if row.waiting else "-",
    )


def explanation(quotas: Sequence[QuotaRow], user: str, client_id: str) -> str:
    """Return in words which quotas apply to this client, which ones they outrank, and which clients share a bucket."""
    from policies.quota.entity import KEYS, ClientQuotas, entity_text  # noqa: PLC0415 - other commands' start-up

    book = ClientQuotas()
    for each in quotas:
        if each.key in KEYS:
            book.set(each.entity, each.key, each.value)
    text: list[str] = []
    for key in KEYS:
        ranking = book.ranking(key, user, client_id)
        if not ranking:
            text.append(f"{key}: no limit applies")
            continue
        first, *others = ranking
        named = dict(zip(("user", "client id"), first.tags, strict=True))
        own = " and ".join(f"{kind} {name}" for kind, name in named.items() if name)
        text.append(f"{key}: {number(first.limit)} per second, by {{{entity_text(first.entity)}}}")
        text.append(f"  One bucket for {own}, over all connections and brokers of this Sluice.")
        text += (
            f"  It outranks {{{entity_text(each.entity)}}}, {number(each.limit)} per second."
            for each in others
        )
    return "\n".join(map(escaped, text))


def number(value: float) -> str:
    """Return a number as it would be typed, without exponent and `.0`."""
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else repr(value)


def quotas_json(quotas: Sequence[QuotaRow]) -> str:
    """Return a JSON list of quotas."""
    return json.dumps(
        [
            {
                "user": each.entity.user,
                "client_id": each.entity.client_id,
                "quota": each.key,
                "per_second": each.value,
                "origin": each.origin,
            }
            for each in quotas
        ],
        indent=1,
    )


def usage_json(rows: Sequence[BucketMetrics]) -> str:
    """Return a JSON list of buckets."""
    return json.dumps(
        [
            {
                "user": each.user or None,
                "client_id": each.client_id or None,
                "quota": each.key,
                **{name: getattr(each, name) for name in each._fields[3:]},
            }
            for each in rows
        ],
        indent=1,
    )
