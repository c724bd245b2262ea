"""Rows that agree in their keys are added: sums, maxima and histograms, however the rows come. No Spark."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.added_rows import HOUR_MS, Addition, FamilyPart
from pipeline.schema import FAMILIES
from pipeline.whatif import client_rows
from tests.support.telemetry.usage_rows import START_MS, Row, usage_row

ADDITION = Addition(
    ("user", "client_id", "hour"),
    (
        FamilyPart("entity", {"requests": "requests"}, {"longest_ms": "throttle_ms_max"}),
        FamilyPart("api", {"ended": "requests"}, stages=("upstream", "purgatory")),
    ),
)
counts = st.none() | st.integers(0, 1 << 50)
histograms = st.dictionaries(st.integers(0, 240), st.integers(1, 1 << 40), max_size=4)


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, Row]:
    family = draw(st.sampled_from(("entity", "api")))
    at = {"ts_ms": START_MS + draw(st.integers(0, 3 * HOUR_MS))}
    names = {name: draw(st.sampled_from((None, "", "a", "b"))) for name in ("user", "client_id")}
    if family == "entity":
        figures: Row = {"requests": draw(counts), "throttle_ms_max": draw(counts)}
    else:
        figures = {"requests": draw(counts)}
        for stage in ("upstream", "purgatory"):
            found = dict(sorted(draw(histograms).items()))
            figures |= {f"{stage}_i": list(found), f"{stage}_n": list(found.values())}
    return family, usage_row(family, **at, **names, **figures)


def key(row: Row) -> tuple[object, ...]:
    return row["user"], row["client_id"], row["ts_ms"] // HOUR_MS * HOUR_MS


def expected(made: list[tuple[str, Row]]) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Return the sums, one row after the other."""
    groups: dict[tuple[object, ...], list[tuple[str, Row]]] = defaultdict(list)
    for family, row in made:
        groups[key(row)].append((family, row))

    def known(group: list[tuple[str, Row]], family: str, name: str) -> list[int]:
        return [row[name] for of, row in group if of == family and row[name] is not None]

    found = {}
    for names, group in groups.items():
        sums = [known(group, family, "requests") for family in ("entity", "api")]
        longest = known(group, "entity", "throttle_ms_max")
        waits: list[Counter[int]] = [Counter(), Counter()]
        for of, row in group:
            for stage, wait in zip(("upstream", "purgatory"), waits, strict=True):
                if of == "api":
                    wait.update(dict(zip(row[f"{stage}_i"], row[f"{stage}_n"], strict=True)))
        found[names] = (
            *(sum(each) if each else None for each in sums),
            max(longest, default=None),
            *(sorted(wait.items()) for wait in waits),
        )
    return found


def batches_of(
    made: list[tuple[str, Row]], family: str, rows_each: int
) -> Iterator[pa.RecordBatch]:
    part = next(each for each in ADDITION.parts if each.family == family)
    kinds = to_arrow_schema(FAMILIES[family])
    table = pa.Table.from_pylist([row for of, row in made if of == family], kinds)
    return iter(table.select(ADDITION.columns(part)).to_batches(max_chunksize=rows_each))


@given(
    made=st.lists(rows(), max_size=30),
    rows_each=st.integers(1, 8),
    chunk_rows=st.integers(1, 12),
    encodes=st.booleans(),
)
def test_groups_are_the_sums_of_their_rows(
    made: list[tuple[str, Row]], rows_each: int, chunk_rows: int, *, encodes: bool
) -> None:
    """For all sizes of batches and chunks, sorted or not, and also if texts come as dictionaries."""
    with mock.patch.object(client_rows, "CHUNK_ROWS", chunk_rows):
        parts = []
        for part in ADDITION.parts:
            given_rows = batches_of(made, part.family, rows_each)
            if encodes:
                given_rows = map(encoded, given_rows)
            parts += list(ADDITION.job(part)(given_rows))
        sorted_rows = []
        if parts:
            table = pa.Table.from_batches(parts)
            order = [(name, "ascending") for name in ADDITION.keys]
            sorted_rows = table.sort_by(order).to_batches(max_chunksize=rows_each)
        found = [row for group in ADDITION.groups(sorted_rows) for row in group.to_pylist()]

    as_found = {
        (row["user"], row["client_id"], row["hour"]): (
            *(row[name] for name in ("requests", "ended", "longest_ms")),
            *(
                list(zip(row[f"{stage}_i"], row[f"{stage}_n"], strict=True))
                for stage in ("upstream", "purgatory")
            ),
        )
        for row in found
    }
    assert len(as_found) == len(found)
    assert as_found == expected(made)


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        each.dictionary_encode() if pa.types.is_string(each.type) else each
        for each in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def test_without_keys_all_rows_are_one() -> None:
    """As `usage --by ''` asks for."""
    addition = Addition((), (FamilyPart("entity", {"requests": "requests"}),))
    made = pa.Table.from_pylist(
        [usage_row("entity", requests=count) for count in (1, 2, 4)],
        to_arrow_schema(FAMILIES["entity"]),
    )
    given_rows = made.select(addition.columns(addition.parts[0])).to_batches(max_chunksize=1)
    (found,) = addition.groups(addition.job(addition.parts[0])(given_rows))
    assert found.to_pylist() == [{"requests": 7}]
