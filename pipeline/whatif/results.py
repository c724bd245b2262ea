"""The predictions as Arrow tables: a row for each client, kind of limit and factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.whatif.client_rows import ClientRows
    from pipeline.whatif.closed_loop import Simulated
    from pipeline.whatif.demand import ClientDemand

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]

RESULT: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("instance", "user", "client_id")),
        *(("factor", pa.float64()), ("limit_key", pa.string()), ("quota_entity", pa.string())),
        *(("limit", pa.float64()), ("seconds", pa.float64()), ("connections", pa.int64())),
        *((name, pa.float64()) for name in ("wanted_per_s", "accepted_per_s", "requests")),
        *((name, pa.float64()) for name in ("throttled_share", "delay_p50_ms", "delay_p99_ms")),
        *(("flag", pa.string()), ("reason", pa.string())),
        *(("delay_i", pa.list_(pa.int32())), ("delay_n", pa.list_(pa.float64()))),
    ]
)
"""Rates are in requests or bytes per second; `requests` are those accepted. `delay_i` and `delay_n` are a histogram of
their delays (`pipeline.whatif.delays`), so that results can be added.
"""


class ResultTables:
    """Adds the outcomes of the boots of each client, and gives those who were simulated together their parts."""

    def __init__(
        self,
        known: ClientRows,
        limited: Ints,
        columns: dict[str, NDArray[np.generic]],
        demand: ClientDemand,
    ) -> None:
        count = len(limited)
        client = columns["client"].astype(np.int64)
        self._member = demand.member
        places: dict[tuple[str, str, str], int] = {}
        keys = [known.names[place] for place in limited]
        self._group = np.array(
            [places.setdefault((i, u, c), len(places)) for i, _, u, c in keys], np.int64
        )
        self._names = list(places)
        self._first = np.zeros(len(places), np.int64)
        self._first[self._group[::-1]] = np.arange(count)[::-1]
        amount = np.bincount(client, columns["amount"].astype(np.float64), count)
        whole = np.bincount(self._member, amount, demand.clients)
        alone = np.bincount(self._member, minlength=demand.clients)[self._member] == 1
        self._part = np.where(alone, 1.0, amount / np.maximum(whole[self._member], 1e-12))
        connections = np.zeros(count)
        np.maximum.at(connections, client, columns["connections"].astype(np.float64))
        self.connections = connections
        self.exempt_share = np.zeros(count)
        if "exempt" in columns:
            exempt, charged = (
                np.bincount(client, columns[name].astype(np.float64), count)
                for name in ("exempt", "charged")
            )
            self.exempt_share = exempt / np.maximum(exempt + charged, 1.0)

    def table(
        self,
        outcome: Simulated,
        flagged: tuple[list[str], list[str]],
        *,
        factor: float,
        limit_key: str,
        limit: Reals,
        quota_entity: list[str],
    ) -> pa.Table:
        """Return the results of one factor."""
        groups = len(self._names)

        def total(of_members: Reals, part: Reals | float = 1.0) -> Reals:
            weight = (of_members[self._member] * part).astype(np.float64)
            return np.bincount(self._group, weight, groups).astype(np.float64)

        seconds = np.maximum(total(outcome.seconds), 1.0)
        requests = total(outcome.requests, self._part)
        delays = outcome.delays.merged(self._member, self._part, self._group, groups)
        indexes, counts = delays.sparse()
        most = np.zeros(groups, np.int64)
        np.maximum.at(most, self._group, self.connections.astype(np.int64))
        first = self._first
        columns = {
            "instance": [name[0] for name in self._names],
            "user": [name[1] for name in self._names],
            "client_id": [name[2] for name in self._names],
            "factor": np.full(groups, factor),
            "limit_key": [limit_key] * groups,
            "quota_entity": [quota_entity[place] for place in first],
            "limit": limit[first],
            "seconds": seconds,
            "connections": most,
            "wanted_per_s": total(outcome.wanted, self._part) / seconds,
            "accepted_per_s": total(outcome.accepted, self._part) / seconds,
            "requests": requests,
            "throttled_share": np.minimum(delays.delayed() / np.maximum(requests, 1e-9), 1.0),
            "delay_p50_ms": delays.percentile_ms(0.5, requests),
            "delay_p99_ms": delays.percentile_ms(0.99, requests),
            "flag": [flagged[0][place] for place in first],
            "reason": [flagged[1][place] for place in first],
            "delay_i": indexes,
            "delay_n": counts,
        }
        return pa.table(columns, schema=RESULT)
