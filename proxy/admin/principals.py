"""The rows of the principals: each client's rates, its limit, and the bucket it shares.

Rules:
- Clients with requests in the last second come first, then idle ones.
- A client's limit is the one that stops it first, by requests or by bytes; its use is the bucket's, not the client's.
- Other tasks run after every SLICE rows.
- Clients that share a bucket are listed together, at the place of the first.
"""

from __future__ import annotations

from itertools import islice
from math import ceil
from typing import TYPE_CHECKING

import trio

from proxy.admin.schemas import MAX_SHOWN_NAME_CHARS, BucketRow, PrincipalRow, Quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admin.live_quotas import BindingLimit
    from proxy.admin.service import AdminService

MAX_PRINCIPALS = 200
SLICE = 25
"""Rows between two yields: half a millisecond."""
MAX_WAIT_MS = 1 << 53
"""The largest integer that JavaScript holds exactly."""
_NOTHING = Quantiles(None, None)


class _Shared:
    """A bucket and the requests of the clients that share it."""

    def __init__(self, binding: BindingLimit) -> None:
        self.binding = binding
        self.requests_per_s = 0.0
        self.principals = 0

    def row(self) -> BucketRow:
        """Return the row of the bucket."""
        binding = self.binding
        rate = self.requests_per_s if binding.rate is None else binding.rate
        used = min(1.0, rate / binding.limit) if binding.used is None else binding.used
        return BucketRow(
            binding.entity,
            binding.quota,
            binding.limit,
            round(rate, 3),
            round(100 * used, 1),
            min(ceil(binding.wait_ms), MAX_WAIT_MS),
            binding.waiting,
            self.principals,
        )


async def principals(
    service: AdminService,
    throttled: Mapping[tuple[str, str], int],
    now_ms: int,
    latency: Callable[[str, str], tuple[float, float] | None],
) -> tuple[list[PrincipalRow], list[BucketRow]]:
    """Return at most MAX_PRINCIPALS rows, and the buckets that they refer to.

    `throttled` has the muted connections of each client; `latency` returns the median and the 99th percentile of its
    answers in milliseconds.
    """
    shared: dict[tuple[str, str], _Shared] = {}
    places: dict[tuple[str, str], int] = {}
    rows: list[PrincipalRow] = []
    seen: set[tuple[str, str]] = set()

    def place_of(key: tuple[str, str], requests_per_s: float) -> int | None:
        binding = service.live_quotas.binding_limit(*key, now_ms)
        if binding is None:
            return None
        name = binding.entity, binding.quota
        if name not in shared:
            places[name] = len(shared)
            shared[name] = _Shared(binding)
        shared[name].requests_per_s += requests_per_s
        shared[name].principals += 1
        return places[name]

    for place, (busy, throttles) in enumerate(service.principals.busiest(MAX_PRINCIPALS, now_ms)):
        if place % SLICE == SLICE - 1:
            await trio.lowlevel.checkpoint()
        key = busy.user, busy.client_id
        seen.add(key)
        rows.append(
            PrincipalRow(
                busy.user,
                busy.client_id[:MAX_SHOWN_NAME_CHARS],
                busy.connections,
                float(busy.requests),
                float(busy.request_bytes),
                float(busy.response_bytes),
                _quantiles(latency(*key)),
                service.signals.errors_of(*key),
                place_of(key, busy.requests),
                throttled.get(key, 0),
                _quantiles(throttles.quantiles_ms(now_ms) if throttles else None),
                throttles.count if throttles else 0,
                throttles.total_ms if throttles else 0,
            )
        )
    quiet = (item for item in service.engine.usage.keys.items() if item[0] not in seen)
    for place, (key, usage) in enumerate(tuple(islice(quiet, MAX_PRINCIPALS - len(rows)))):
        if place % SLICE == SLICE - 1:
            await trio.lowlevel.checkpoint()
        row = PrincipalRow(
            key[0],
            key[1][:MAX_SHOWN_NAME_CHARS],
            usage.connections,
            *(0.0, 0.0, 0.0),
            _quantiles(latency(*key)),
            service.signals.errors_of(*key),
            place_of(key, 0.0),
            throttled.get(key, 0),
            _NOTHING,
            *(0, 0),
        )
        rows.append(row)
    return grouped(rows), [each.row() for each in shared.values()]


def _quantiles(found: tuple[float, float] | None) -> Quantiles:
    return Quantiles(*found) if found else _NOTHING


def grouped(rows: list[PrincipalRow]) -> list[PrincipalRow]:
    """Return the rows with those of one bucket together, at the place of the first."""
    first: dict[int, int] = {}
    order = []
    for place, row in enumerate(rows):
        at = place if row.bucket is None else first.setdefault(row.bucket, place)
        order.append((at, place))
    return [rows[place] for _, place in sorted(order)]
