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

from pipeline.whatif.demand import CHANNEL, ENTITY, NO_QUOTA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NAMES: Final = ("instance", "boot", "user", "client_id")
SCHEMA: Final = ", ".join((*(f"{name} string" for name in NAMES), "rows binary"))
_RECORDED: Final = {"enforcement": "recorded", "quota_rate": "recorded_rate"}
"""The quota that a row was recorded under has names of its own in a simulation."""
_KINDS: Final = {"connections": "<i4", "recorded": "<i1", "recorded_rate": "<f8"}
_CODES: Final = {"entity": ENTITY, "channel": CHANNEL}
_BATCH_ROWS: Final = 1 << 20


@dataclass
class ClientRows:
    """The rows by number, and the clients that they belong to."""

    client: Ints
    names: list[tuple[str, str, str, str]]
    columns: dict[str, NDArray[np.generic]]


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the family `entity` in `batches` as packed rows (SCHEMA), some batches at a time."""
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
    """Return one packed row for each client of `rows`, which have NAMES and columns of the family `entity`."""
    code = np.zeros(rows.num_rows, np.int64)
    names: list[pa.Array] = []
    for name in NAMES:
        column = rows.column(name).fill_null("").combine_chunks().dictionary_encode()
        code = code * len(column.dictionary) + column.indices.to_numpy()
        if (
            code.max(initial=0) >= 1 << 40
        ):  # numbers of clients that are there, not of all that could be
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        names.append(column)
    order = np.argsort(code, kind="stable")
    code = code[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    kept = [name for name in rows.column_names if name not in NAMES]
    records = np.empty(len(order), record_of(kept))
    for name in kept:
        records[_RECORDED.get(name, name)] = _numbers(name, rows.column(name))[order]
    first = pa.array(order[starts])
    texts = [name.take(first).cast(pa.string()) for name in names]
    counts = np.diff(np.append(starts, len(order)))
    return pa.RecordBatch.from_arrays([*texts, binary_of(records, counts)], [*NAMES, "rows"])


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


def since(packed: pa.Table, columns: Iterable[str], first_ms: int) -> pa.RecordBatch:
    """Return packed rows without the rows before a time; `columns` as for `unpack_rows`."""
    records, counts = records_of(packed.column("rows"), record_of(columns))
    kept = records["ts_ms"] >= first_ms
    before = np.append(0, np.cumsum(kept))
    ends = np.cumsum(counts)
    left = before[ends] - before[ends - counts]
    some = packed.select(NAMES).filter(pa.array(left > 0)).combine_chunks()
    texts = [some.column(name).combine_chunks() for name in NAMES]
    return pa.RecordBatch.from_arrays(
        [*texts, binary_of(records[kept], left[left > 0])], [*NAMES, "rows"]
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


def _numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.generic]:
    column = column.combine_chunks()
    if name != "enforcement":
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False))
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    codes = np.array([*(_CODES.get(text, NO_QUOTA) for text in texts), NO_QUOTA])
    return np.asarray(codes[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
