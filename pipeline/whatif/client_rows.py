"""The rows of clients as bytes: one row for each client, so that few rows go from task to task.

Rules:
- A client is an instance, a boot, a user and a client id. It may have several packed rows: a task packs some rows at a
  time.
- All numbers are kept as they are; a number that is missing is 0, a name that is missing is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from pipeline.whatif.demand import CHANNEL, ENTITY, NO_QUOTA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Ints = NDArray[np.int64]

NAMES: Final = ("instance", "boot", "user", "client_id")
CHUNK_ROWS: Final = 1 << 20
"""So many rows are packed at a time: Spark's own batches are much smaller."""
SCHEMA: Final = ", ".join((*(f"{name} string" for name in NAMES), "rows binary"))
_RECORDED: Final = {"enforcement": "recorded", "quota_rate": "recorded_rate"}
"""The quota that a row was recorded under has names of its own in a simulation."""
_KINDS: Final = {"connections": "<i4", "recorded": "<i1", "recorded_rate": "<f8"}
_CODES: Final = {"entity": ENTITY, "channel": CHANNEL}


@dataclass
class ClientRows:
    """The rows by number, and the clients that they belong to."""

    client: Ints
    names: list[tuple[str, str, str, str]]
    columns: dict[str, NDArray[np.generic]]


def packed_clients(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return rows of the family `entity` packed by client, with these columns; NAMES are among them."""
    return rows.select(*columns).mapInArrow(pack, SCHEMA)


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the family `entity` in `batches` as packed rows (SCHEMA), some batches at a time."""
    for rows in chunks_of(batches):
        yield pack_rows(rows)


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of the batches as tables of at least CHUNK_ROWS rows, the last one with what is left."""
    some: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        some.append(batch)
        count += batch.num_rows
        if count >= CHUNK_ROWS:
            yield pa.Table.from_batches(some)
            some, count = [], 0
    if count:
        yield pa.Table.from_batches(some)


def pack_rows(rows: pa.Table) -> pa.RecordBatch:
    """Return one packed row for each client of `rows`, which have NAMES and columns of the family `entity`."""
    code = np.zeros(rows.num_rows, np.int64)
    names: list[tuple[Ints, pa.Array]] = []
    for name in NAMES:
        number, texts = _texts(rows.column(name))
        code = code * len(texts) + number
        if (
            code.max(initial=0) >= 1 << 40
        ):  # numbers of clients that are there, not of all that could be
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        names.append((number, texts))
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    order = None
    if len(np.unique(code[starts])) < len(starts):  # a table that is clustered has each client once
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    kept = [name for name in rows.column_names if name not in NAMES]
    records = np.empty(len(code), record_of(kept))
    for name in kept:
        numbers = _numbers(name, rows.column(name))
        records[_RECORDED.get(name, name)] = numbers if order is None else numbers[order]
    first = starts if order is None else order[starts]
    found = [texts.take(pa.array(number[first])) for number, texts in names]
    counts = np.diff(np.append(starts, len(code)))
    return pa.RecordBatch.from_arrays([*found, binary_of(records, counts)], [*NAMES, "rows"])


def unpack_rows(packed: pa.Table, columns: Iterable[str]) -> ClientRows:
    """Return the rows of packed rows that were made from these columns of the family `entity`."""
    kind = record_of(columns)
    places: dict[tuple[str, str, str, str], int] = {}
    texts = (packed.column(name).to_pylist() for name in NAMES)
    owner = [places.setdefault(names, len(places)) for names in zip(*texts, strict=True)]
    records, counts = records_of(packed.column("rows"), kind)
    return ClientRows(
        np.repeat(np.array(owner, np.int64), counts),
        list(places),
        {name: np.ascontiguousarray(records[name]) for name in kind.names or ()},
    )


def record_of(columns: Iterable[str]) -> np.dtype[np.void]:
    """Return the type of a packed row's records, which have these columns of the family `entity` besides NAMES."""
    names = [_RECORDED.get(name, name) for name in columns if name not in NAMES]
    return np.dtype([(name, _KINDS.get(name, "<i8")) for name in names])


def records_of(column: pa.ChunkedArray, kind: np.dtype[np.void]) -> tuple[NDArray[np.void], Ints]:
    """Return the records in all rows of a binary column, and the number of records of each row."""
    parts: list[NDArray[np.void]] = []
    counts: list[Ints] = []
    for chunk in column.chunks:
        if not len(chunk):
            continue
        _, offsets_buffer, data = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[chunk.offset :][: len(chunk) + 1]
        parts.append(np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].view(kind))
        counts.append(np.diff(offsets).astype(np.int64) // kind.itemsize)
    if not parts:
        return np.empty(0, kind), np.empty(0, np.int64)
    return np.concatenate(parts), np.concatenate(counts)


def binary_of(records: NDArray[np.void], counts: Ints) -> pa.Array:
    """Return a binary column with so many of the records in each row."""
    offsets = (np.append(0, np.cumsum(counts)) * records.itemsize).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records)]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def _texts(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return the numbers of the texts of a column, and the texts; a text that is missing is empty."""
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    indices, texts = encoded.indices, encoded.dictionary
    if indices.null_count:
        empty = pc.index(texts, "").as_py()
        if empty < 0:
            empty, texts = len(texts), pa.concat_arrays([texts, pa.array([""], texts.type)])
        indices = indices.fill_null(empty)
    return indices.to_numpy().astype(np.int64), texts


def _numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.generic]:
    column = column.combine_chunks()
    if name != "enforcement":
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False))
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    codes = np.array([*(_CODES.get(text, NO_QUOTA) for text in texts), NO_QUOTA])
    return np.asarray(codes[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
