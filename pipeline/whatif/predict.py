"""Predicts what a candidate does to the clients of some rows: Arrow in, one row for each client, limit and factor out.

Rules:
- A quota holds in one Sluice, so each instance is simulated by itself, and each start of its process (`boot`) with new
  buckets. The results of an instance's boots are added.
- The rows of one bucket must be in one call (`partition_columns`).
- Bytes are those that the rows have: `charged_bytes` of all requests for a producer's limit, `response_bytes` of all
  replies for a consumer's. So they are upper bounds, close for clients that only produce or only consume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from pipeline.whatif.channel_loop import ChannelLoop
from pipeline.whatif.client_rows import NAMES
from pipeline.whatif.closed_loop import simulate
from pipeline.whatif.demand import demand_of
from pipeline.whatif.entity_loop import EntityLoop
from pipeline.whatif.flags import flags_of
from pipeline.whatif.results import ResultTables
from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    KEYS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    ClientQuotas,
    tags_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
    from numpy.typing import NDArray

    from pipeline.whatif.client_rows import ClientRows
    from pipeline.whatif.closed_loop import Rule
    from policies.quota.config import QuotaLine

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]

COLUMNS: Final = (
    *NAMES,
    *("ts_ms", "charged", "connections", "blocked_ms", "enforcement", "quota_rate"),
)
AMOUNTS: Final = {
    REQUEST_RATE: "charged",
    PRODUCER_BYTE_RATE: "charged_bytes",
    CONSUMER_BYTE_RATE: "response_bytes",
}


@dataclass(frozen=True)
class Candidate:
    """Quotas to try, and how they would be enforced."""

    lines: Sequence[QuotaLine]
    enforcement: Literal["entity", "channel"] = "entity"
    burst_seconds: float = 2.0
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    factors: Sequence[float] = (1.0,)
    """The limits are tried multiplied by each of these."""

    def columns(self) -> tuple[str, ...]:
        """Return the columns of the family `entity` that a prediction reads."""
        keys = {key for line in self.lines for key, _ in line.limits()}
        amounts = [AMOUNTS[key] for key in KEYS if key in keys]
        exempt = ["exempt"] if self.enforcement == "channel" else []
        return tuple(dict.fromkeys((*COLUMNS, *amounts, *exempt)))

    def quotas(self) -> ClientQuotas:
        """Return the limits as the policy looks them up."""
        quotas = ClientQuotas()
        for line in self.lines:
            for key, value in line.limits():
                quotas.set(line.entity, key, value)
        return quotas

    def rule(self, key: str, limit: Reals, clients: int) -> Rule:
        """Return the rule for these limits of one kind."""
        if self.enforcement == "entity":
            return EntityLoop(limit, self.burst_seconds * 1000, clients)
        window_ms = self.quota_window_size_seconds * 1000
        cap_ms = window_ms if key == REQUEST_RATE else None
        return ChannelLoop(limit, clients, self.quota_window_num, window_ms, cap_ms)


def partition_columns(candidate: Candidate) -> list[str]:
    """Return the columns in which all rows of a bucket agree: rows that do must be predicted together."""
    entities = [line.entity for line in candidate.lines]
    shares_user = any(entity.client_id is None for entity in entities)
    shares_client_id = any(entity.user is None for entity in entities)
    columns = ["instance"]
    if not shares_client_id:
        columns.append("user")
    if not shares_user:
        columns.append("client_id")
    return columns


def predict(known: ClientRows, candidate: Candidate) -> Iterator[pa.Table]:
    """Yield the predictions for each kind of limit and each factor; tables of `RESULT`. The rows have the candidate's
    columns.
    """
    quotas = candidate.quotas()
    for key in KEYS:
        if not quotas.any(key):
            continue
        buckets: dict[tuple[str, str, tuple[str, str]], int] = {}
        bucket_of = np.full(len(known.names), -1, np.int64)
        limits: list[float] = []
        names: list[str] = []
        for place, (instance, boot, user, client_id) in enumerate(known.names):
            resolved = quotas.resolve(key, user, client_id)
            if resolved is None:
                continue
            bucket = buckets.setdefault((instance, boot, resolved.tags), len(limits))
            if bucket == len(limits):
                limits.append(resolved.limit)
                names.append(tags_text(resolved.tags))
            bucket_of[place] = bucket
        if limits:
            yield from _predict_limit(known, candidate, key, bucket_of, np.array(limits), names)


def _predict_limit(
    known: ClientRows,
    candidate: Candidate,
    key: str,
    bucket_of: Ints,
    limits: Reals,
    bucket_names: list[str],
) -> Iterator[pa.Table]:
    limited = np.flatnonzero(bucket_of >= 0)
    place_of = np.full(len(bucket_of), -1, np.int64)
    place_of[limited] = np.arange(len(limited))
    columns = dict(known.columns)
    columns["client"] = place_of[known.client]
    columns["amount"] = known.columns[AMOUNTS[key]]
    columns["requests"] = known.columns["charged"]
    if len(limited) < len(bucket_of):
        mine = place_of[known.client] >= 0
        columns = {name: column[mine] for name, column in columns.items()}
    demand = demand_of(columns, bucket_of[limited], limits)
    results = ResultTables(known, limited, columns, demand)
    for factor in candidate.factors:
        scaled = replace(demand, limit=limits * factor)
        outcome = simulate(scaled, candidate.rule(key, scaled.limit, scaled.clients))
        flagged = flags_of(
            candidate.enforcement, key, scaled, outcome, results.connections, results.exempt_share
        )
        yield results.table(
            outcome,
            flagged,
            factor=factor,
            limit_key=key,
            limit=scaled.limit[bucket_of[limited]],
            quota_entity=[bucket_names[place] for place in bucket_of[limited]],
        )
