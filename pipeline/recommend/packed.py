"""The demand of every client as one row of bytes: a hundredth of the rows, and a fifth of their size.

Rules:
- A row of the usage log that was recorded under a quota counts less than its client would have sent. The lost part of
  the time is taken out: demand = amount / (1 - lost). Enforcement `channel`: the share of the time of its connections
  that throttles blocked. Enforcement `entity`: a client is muted for one interval after each request, also when it
  would have been idle then; so only half of what exceeds the intervals is lost. At most MAX_LOST is taken for lost.
- Bytes for a producer are those of all charged requests, bytes for a consumer those of all replies: the usage log does
  not divide them by API and second of arrival. They are upper bounds, close for clients that only produce or consume.
- Rows of many clients have the names `(other)`. Names that no rule can name get them, too: those that the usage log has
  cut, and the name `<default>`, which any client may choose.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import functions as sf

from pipeline.whatif.client_rows import NAMES as CLIENT
from pipeline.whatif.client_rows import binary_of, pack, record_of, records_of
from pipeline.whatif.demand import ENTITY
from pipeline.whatif.predict import AMOUNTS
from policies.quota.entity import (
    DEFAULT_NAME,
    KEYS,
    MAX_NAME_CHARS,
    REQUEST_RATE,
)
from wire.apis import RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

MAX_LOST: Final = 0.95
OTHER: Final = "(other)"
NAMES: Final = ("instance", "user", "client_id")
RECORD: Final = np.dtype([("second", "<u4"), *((key, "<f4") for key in KEYS)])
SCHEMA: Final = (
    "instance string, user string, client_id string, first_s long, last_s long, "
    "seconds long, blocked_seconds long, requests double, records binary"
)
"""`records` has a RECORD for each second; seconds in which a throttle took time are `blocked_seconds`."""
COLUMNS: Final = (
    *CLIENT,
    *("ts_ms", "charged", "charged_bytes", "response_bytes"),
    *("connections", "blocked_ms", "enforcement", "quota_rate"),
)
"""The columns of the family `entity` that demand and back-test need."""
_KIND: Final = record_of(COLUMNS)


class Names(NamedTuple):
    """Texts as numbers of distinct values."""

    number: NDArray[np.int64]
    texts: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Names:
        """Return the numbers of a column of texts."""
        found = column.combine_chunks().dictionary_encode()
        numbers = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(numbers, found.dictionary)


def packed(entity: DataFrame) -> DataFrame:
    """Return the demand of the clients of the family `entity`; columns: SCHEMA. A client may have several rows."""
    named = reduce(
        and_,
        (
            ~sf.col(name).isin(OTHER, DEFAULT_NAME) & (sf.length(name) < MAX_NAME_CHARS)
            for name in ("user", "client_id")
        ),
    )
    names = {name: sf.when(named, sf.col(name)).otherwise(OTHER).alias(name) for name in NAMES[1:]}
    return entity.select(*COLUMNS).mapInArrow(_pack, SCHEMA).withColumns(names)


def with_uses(demand: DataFrame, api: DataFrame | None) -> DataFrame:
    """Return the demand with columns `produces` and `fetches`: whether the client sends or reads records.

    `api` are the rows of that family; without them every client may have sent both.
    """
    if api is None:
        return demand.withColumns({"produces": sf.lit(1), "fetches": sf.lit(1)})
    uses = api.groupBy(*NAMES[1:]).agg(
        sf.max((sf.col("api_key").isin(*RECORDS_IN_REQUESTS)).cast("int")).alias("produces"),
        sf.max((sf.col("api_key").isin(*RECORDS_IN_REPLIES)).cast("int")).alias("fetches"),
    )
    return demand.join(uses, list(NAMES[1:]), "left").na.fill(0, ["produces", "fetches"])


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (demand_rows(pa.Table.from_batches([clients])) for clients in pack(batches))


def demand_rows(clients: pa.Table) -> pa.RecordBatch:
    """Return the demand of each row of `clients`, which are packed with COLUMNS."""
    rows, counts = records_of(clients.column("rows"), _KIND)
    starts = np.cumsum(counts) - counts
    lost = _lost(rows)
    records = np.empty(len(rows), RECORD)
    records["second"] = rows["ts_ms"] // 1000
    for key, name in AMOUNTS.items():
        records[key] = rows[name] / (1 - lost)
    columns = {name: clients.column(name).combine_chunks() for name in NAMES}
    columns["first_s"] = np.minimum.reduceat(records["second"], starts).astype(np.int64)
    columns["last_s"] = np.maximum.reduceat(records["second"], starts).astype(np.int64)
    columns["seconds"] = counts
    columns["blocked_seconds"] = np.add.reduceat((lost > 0).astype(np.int64), starts)
    columns["requests"] = np.add.reduceat(records[REQUEST_RATE].astype(np.float64), starts)
    columns["records"] = binary_of(records, counts)
    return pa.RecordBatch.from_pydict(columns)


def _lost(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the share of the time of each row's client that throttles took."""
    rate = np.where(rows["recorded_rate"] > 0, rows["recorded_rate"], np.nan)
    waited_ms = np.fmax(rows["blocked_ms"] - rows["charged"] * 1000 / rate, 0) / 2
    spent_ms = np.maximum(rows["connections"], 1) * 1000.0
    blocked_ms = np.where(rows["recorded"] == ENTITY, waited_ms, rows["blocked_ms"])
    return np.asarray(np.minimum(blocked_ms / spent_ms, MAX_LOST))
