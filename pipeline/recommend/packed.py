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

from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    DEFAULT_NAME,
    KEYS,
    MAX_NAME_CHARS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

MAX_LOST: Final = 0.95
OTHER: Final = "(other)"
NAMES: Final = ("instance", "user", "client_id")
AMOUNTS: Final = {
    REQUEST_RATE: "charged",
    PRODUCER_BYTE_RATE: "charged_bytes",
    CONSUMER_BYTE_RATE: "response_bytes",
}
"""The column that a limit counts."""
RECORD: Final = np.dtype([("second", "<u4"), *((key, "<f4") for key in KEYS)])
SCHEMA: Final = (
    "instance string, user string, client_id string, first_s long, last_s long, "
    "seconds long, blocked_seconds long, requests double, records binary"
)
"""`records` has a RECORD for each second; seconds in which a throttle took time are `blocked_seconds`."""
_BATCH_ROWS: Final = 1 << 20
_LOST: Final = """least({max_lost}, coalesce(
    if(enforcement = 'entity', greatest(blocked_ms - charged * 1000 / quota_rate, 0) / 2, blocked_ms)
    / (greatest(connections, 1) * 1000), 0))"""


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


def packed(rows: DataFrame) -> DataFrame:
    """Return the demand in rows of the family `entity`; columns: SCHEMA. A client may have several rows of them."""
    lost = _LOST.format(max_lost=MAX_LOST)
    named = reduce(
        and_,
        (
            ~sf.col(name).isin(OTHER, DEFAULT_NAME) & (sf.length(name) < MAX_NAME_CHARS)
            for name in ("user", "client_id")
        ),
    )
    amounts = (
        (sf.col(name) / (1 - sf.col("lost"))).cast("float").alias(key)
        for key, name in AMOUNTS.items()
    )
    demand = rows.withColumns({"lost": sf.expr(lost), "named": named}).select(
        "instance",
        *(
            sf.when(sf.col("named"), sf.col(name)).otherwise(OTHER).alias(name)
            for name in NAMES[1:]
        ),
        sf.expr("cast(ts_ms div 1000 as bigint)").alias("second"),
        (sf.col("lost") > 0).alias("blocked"),
        *amounts,
    )
    return demand.mapInArrow(_pack, SCHEMA)


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the rows of a partition, some batches at a time."""
    some: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        some.append(batch)
        count += batch.num_rows
        if count >= _BATCH_ROWS:
            yield pack_rows(pa.Table.from_batches(some))
            some, count = [], 0
    if count:
        yield pack_rows(pa.Table.from_batches(some))


def pack_rows(rows: pa.Table) -> pa.RecordBatch:
    """Return one row for each client of `rows`, which have the columns NAMES, second, blocked and the limits."""
    names = [Names.of(rows.column(name)) for name in NAMES]
    client = names[0].number
    for each in names[1:]:
        client = client * len(each.texts) + each.number
        if (
            client.max(initial=0) >= 1 << 40
        ):  # numbers of clients that are there, not of all that could be
            client = np.unique(client, return_inverse=True)[1].astype(np.int64)
    second = rows.column("second").to_numpy()
    order = np.lexsort((second, client))
    client = client[order]
    starts = np.flatnonzero(np.diff(client, prepend=-1))
    ends = np.append(starts[1:], len(client))
    records = np.empty(len(order), RECORD)
    records["second"] = second[order]
    for key in KEYS:
        records[key] = rows.column(key).to_numpy()[order]
    blocked = rows.column("blocked").to_numpy()[order]
    offsets = np.append(starts, len(client)).astype(np.int32) * RECORD.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records)]
    columns = {
        name: each.texts.take(pa.array(each.number[order[starts]]))
        for name, each in zip(NAMES, names, strict=True)
    }
    columns["first_s"] = records["second"][starts].astype(np.int64)
    columns["last_s"] = records["second"][ends - 1].astype(np.int64)
    columns["seconds"] = ends - starts
    columns["blocked_seconds"] = np.add.reduceat(blocked.astype(np.int64), starts)
    columns["requests"] = np.add.reduceat(records[REQUEST_RATE].astype(np.float64), starts)
    columns["records"] = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
    return pa.RecordBatch.from_pydict(columns)


def unpack(column: pa.ChunkedArray) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the records of all rows of a column `records`, and the number of records of each row."""
    parts: list[NDArray[np.void]] = []
    counts: list[NDArray[np.int64]] = []
    for chunk in column.chunks:
        _, offsets_buffer, data = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[chunk.offset :][: len(chunk) + 1]
        parts.append(np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].view(RECORD))
        counts.append(np.diff(offsets).astype(np.int64) // RECORD.itemsize)
    if not parts:
        return np.empty(0, RECORD), np.empty(0, np.int64)
    return np.concatenate(parts), np.concatenate(counts)
