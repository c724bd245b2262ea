"""Rows that agree in some columns, added to one row: sums, maxima and merged histograms.

Rules:
- It runs in Python's workers over Arrow batches: once before rows go from task to task, so that few do, and once after
  it, over rows that are sorted. So a worker holds about a million rows, however many groups there are.
- Rows of several families are added together: each has its own columns, and the others are null. A column that is null
  in all rows of a group stays null.
- The keys `hour` and `day` are the beginning of the row's hour and day, in milliseconds.
- A histogram is a pair of columns, `..._i` with bucket numbers in order and `..._n` with their counts, which are not 0.
- All counts are integers and exact.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipeline.histograms import merged
from pipeline.schema import FAMILIES
from pipeline.whatif.client_rows import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Finish: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

HOUR_MS: Final = 3_600_000
TIMES_MS: Final = {"hour": HOUR_MS, "day": 24 * HOUR_MS}
_MANY: Final = 1 << 40


class FamilyPart(NamedTuple):
    """The columns of a family that are added: names in the result, and in the family."""

    family: str
    sums: Mapping[str, str]
    maxima: Mapping[str, str] = {}
    stages: tuple[str, ...] = ()
    """The stages whose histograms are merged."""

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yield each column of the result and the column of the family."""
        yield from self.sums.items()
        yield from self.maxima.items()
        for stage in self.stages:
            yield from ((name, name) for name in (f"{stage}_i", f"{stage}_n"))


class Addition(NamedTuple):
    """Rows of the parts that agree in the keys are one row: the keys, then the columns of each part."""

    keys: tuple[str, ...]
    """Columns that all families of the parts have, `hour` or `day`."""
    parts: tuple[FamilyPart, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        fields = {}
        for part in self.parts:
            known = to_arrow_schema(FAMILIES[part.family])
            for key in self.keys:
                fields[key] = pa.field(
                    key, pa.int64() if key in TIMES_MS else known.field(key).type
                )
        for part in self.parts:
            known = to_arrow_schema(FAMILIES[part.family])
            for name, column in part.columns():
                kind = known.field(column).type
                fields[name] = pa.field(name, kind if pa.types.is_list(kind) else pa.int64())
        return pa.schema(list(fields.values()))

    def parts_of(self, rows: Mapping[str, DataFrame]) -> DataFrame:
        """Return rows of groups, from rows of some of the families; a group may have several rows."""
        found = [
            rows[part.family]
            .select(*self.columns(part))
            .mapInArrow(self.job(part), text_of(self.schema))
            for part in self.parts
            if part.family in rows
        ]
        return reduce(DataFrame.unionAll, found)

    def columns(self, part: FamilyPart) -> list[str]:
        """Return the columns of the family that are read."""
        keys = ("ts_ms" if key in TIMES_MS else key for key in self.keys)
        return list(dict.fromkeys((*keys, *(column for _, column in part.columns()))))

    def job(
        self, part: FamilyPart
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the job from batches with the columns of a part to rows of groups."""
        return partial(self._add_part, part)

    def _add_part(
        self, part: FamilyPart, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for rows in chunks_of(batches):
            found = {key: _key(rows, key) for key in self.keys}
            found |= {name: rows.column(column) for name, column in part.columns()}
            nothing = {
                each.name: pa.nulls(rows.num_rows, each.type)
                for each in schema
                if each.name not in found
            }
            columns = found | nothing
            names = [each.name for each in schema]
            yield self.added(pa.Table.from_arrays([columns[name] for name in names], names))

    def whole(self, rows: DataFrame, finish: Finish, schema: pa.Schema) -> DataFrame:
        """Return what `finish` makes of the groups, from rows of `parts_of`."""
        together = rows.repartition(*self.keys) if self.keys else rows.coalesce(1)
        ordered = together.sortWithinPartitions(*self.keys) if self.keys else together

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return map(finish, self.groups(batches))

        return ordered.mapInArrow(run, text_of(schema))

    def groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row for each group, from rows of groups that are sorted by the keys."""
        last: pa.RecordBatch | None = None
        for chunk in chunks_of(batches):
            rows = chunk
            if last is not None:
                rows = pa.concat_tables([pa.Table.from_batches([last]), chunk])
            found = self.added(rows)
            last = found.slice(found.num_rows - 1)  # the next rows may be of this group, too
            if found.num_rows > 1:
                yield found.slice(0, found.num_rows - 1)
        if last is not None:
            yield last

    def added(self, rows: pa.Table) -> pa.RecordBatch:
        """Return a row for each group of `rows`, in the order of their first ones."""
        group, first = _groups([rows.column(key) for key in self.keys], rows.num_rows)
        columns = {key: _decoded(rows.column(key).take(pa.array(first))) for key in self.keys}
        kinds = {name: "sum" for part in self.parts for name in part.sums}
        kinds |= {name: "max" for part in self.parts for name in part.maxima}
        if kinds:
            numbers = rows.select(list(kinds)).append_column("group", pa.array(group))
            sums = numbers.group_by("group", use_threads=False).aggregate(list(kinds.items()))
            columns |= {name: sums.column(f"{name}_{kind}") for name, kind in kinds.items()}
        for stage in {stage for part in self.parts for stage in part.stages}:
            buckets, counts = f"{stage}_i", f"{stage}_n"
            columns[buckets], columns[counts] = merged(
                rows.column(buckets), rows.column(counts), group, len(first)
            )
        schema = self.schema
        made = [_one(columns[each.name]).cast(each.type) for each in schema]
        return pa.RecordBatch.from_arrays(made, schema=schema)


def text_of(schema: pa.Schema) -> str:
    """Return the columns of a schema as Spark writes them."""
    return ", ".join(
        f"`{each.name}` {each.dataType.simpleString()}" for each in from_arrow_schema(schema)
    )


def _key(rows: pa.Table, key: str) -> pa.ChunkedArray:
    if key not in TIMES_MS:
        return rows.column(key)
    step = TIMES_MS[key]
    return pc.multiply(pc.divide(rows.column("ts_ms"), step), step)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _decoded(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _groups(keys: list[pa.ChunkedArray], count: int) -> tuple[Ints, Ints]:
    """Return the number of each row's group, by the order of their first rows, and the places of these rows."""
    code = np.zeros(count, np.int64)
    for key in keys:
        found = key.combine_chunks()
        if not pa.types.is_dictionary(found.type):
            found = found.dictionary_encode()
        numbers = found.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1
        code = code * (len(found.dictionary) + 1) + numbers
        if code.max(initial=0) >= _MANY:  # number only the keys that are there
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    _, first, run_group = np.unique(code[starts], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    lengths = np.diff(np.append(starts, count))
    return np.repeat(rank[run_group], lengths), starts[first[order]]
