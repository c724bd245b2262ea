"""Rate, limit and throttle times by quota entity, for a limited number of entities.

Rules:
- They are off by default: an entity may be each client id that some client has chosen.
- Entities have series in the order in which they came into use. The number of those without any is a metric, too. At
  most MAX_READ entities are read, because it happens on the loop.
- Names are cut and printable; of entities with the same labels the first one is shown.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.collect import single
from proxy.telemetry.metrics.families import Family, MetricPoint
from proxy.telemetry.metrics.users import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.telemetry.facts import EntityFigures, QuotaEntities
    from proxy.telemetry.metrics.families import Metric

MAX_READ: Final = 2000


def quota_entities(policies: Iterable[QuotaEntities], max_entities: int) -> Iterator[Family]:
    """Yield the families; nothing without any entity."""
    rows: dict[tuple[str, ...], EntityFigures] = {}
    found = ((each.policy, row) for each in policies for row in each.figures)
    hidden = 0
    for policy, row in islice(found, MAX_READ):
        labels = policy, label_of(row.user), label_of(row.client_id), row.key
        if len(rows) < max_entities:
            rows.setdefault(labels, row)
        else:
            hidden += labels not in rows
    if not rows:
        return
    yield single(names.QUOTA_HIDDEN, hidden)
    for metric, values in (
        (names.QUOTA_RATE, ((labels, row.rate) for labels, row in rows.items())),
        (names.QUOTA_LIMIT, ((labels, row.limit) for labels, row in rows.items())),
    ):
        yield Family(metric, [MetricPoint(*each) for each in values])
    yield from _delays(
        names.QUOTA_THROTTLE_AVG, ((key, row.throttle_avg_ms) for key, row in rows.items())
    )
    yield from _delays(
        names.QUOTA_THROTTLE_MAX, ((key, row.throttle_max_ms) for key, row in rows.items())
    )


def _delays(
    metric: Metric, values: Iterable[tuple[tuple[str, ...], float | None]]
) -> Iterator[Family]:
    points = [MetricPoint(labels, ms / 1000) for labels, ms in values if ms is not None]
    if points:
        yield Family(metric, points)
