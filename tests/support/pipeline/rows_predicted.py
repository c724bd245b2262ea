"""The prediction of one bucket from rows of the family `entity`, without Spark."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.whatif.channel_loop import ChannelLoop
from pipeline.whatif.closed_loop import Rule, simulate
from pipeline.whatif.demand import CHANNEL, ENTITY, NO_QUOTA, ClientDemand, demand_of
from pipeline.whatif.entity_loop import EntityLoop

_CODES = {None: NO_QUOTA, "entity": ENTITY, "channel": CHANNEL}


class PredictedBucket(NamedTuple):
    """The result for all clients of a bucket."""

    wanted: float
    accepted: float
    throttled_share: float
    seconds: float


def demand_from(rows: Sequence[dict[str, Any]], limits: Sequence[float]) -> ClientDemand:
    """Return the demand of the client ids, which share one bucket."""
    names = sorted({row["client_id"] for row in rows})
    columns = {
        name: np.array([row[of] or 0 for row in rows])
        for name, of in {
            "ts_ms": "ts_ms",
            "amount": "charged",
            "requests": "charged",
            "connections": "connections",
            "blocked_ms": "blocked_ms",
            "recorded_rate": "quota_rate",
        }.items()
    }
    columns["client"] = np.array([names.index(row["client_id"]) for row in rows])
    columns["recorded"] = np.array([_CODES[row["enforcement"]] for row in rows])
    return demand_of(columns, np.zeros(len(names), np.int64), np.array(limits))


def rule_of(demand: ClientDemand, enforcement: str) -> tuple[ClientDemand, Rule]:
    """Return the demand, and the rule for it."""
    if enforcement == "entity":
        return demand, EntityLoop(demand.limit, 2000, demand.clients)
    return demand, ChannelLoop(demand.limit, demand.clients)


def predicted(rows: Sequence[dict[str, Any]], limit: float, enforcement: str) -> PredictedBucket:
    """Return what would happen under this limit."""
    found = simulate(*rule_of(demand_from(rows, [limit]), enforcement))
    requests = found.requests.sum()
    return PredictedBucket(
        float(found.wanted.sum()),
        float(found.accepted.sum()),
        float(found.delays.delayed().sum() / max(requests, 1e-9)),
        float(found.seconds.max()),
    )
