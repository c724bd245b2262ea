"""Packed rows of clients hold every row and every number."""

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.whatif.client_rows import NAMES, pack, unpack_rows

COLUMNS = (
    *NAMES,
    *("ts_ms", "charged", "connections", "blocked_ms", "enforcement", "quota_rate", "exempt"),
)
KINDS = {
    **dict.fromkeys((*NAMES, "enforcement"), pa.string()),
    "connections": pa.int32(),
    "quota_rate": pa.float64(),
}
SCHEMA = pa.schema([(name, KINDS.get(name, pa.int64())) for name in COLUMNS])
NAME = st.sampled_from([None, "", "a", "b", "\u00e9", "a name\x00", "x" * 300])
NUMBER = st.one_of(st.none(), st.integers(0, 2**63 - 1))
ROW = st.tuples(
    *[NAME] * len(NAMES),
    *(st.integers(0, 2**63 - 1), NUMBER, st.one_of(st.none(), st.integers(0, 2**31 - 1)), NUMBER),
    st.sampled_from([None, "entity", "channel", "of a later version"]),
    st.one_of(st.none(), st.floats(0, allow_infinity=False)),
    NUMBER,
)
CODES = {"entity": 1, "channel": 2}


def batches_of(rows: list[tuple[Any, ...]], sizes: list[int]) -> list[pa.RecordBatch]:
    """Return the rows in batches of these sizes, the rest in one more."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=SCHEMA)
    found: list[pa.RecordBatch] = []
    at = 0
    for size in (*sizes, len(rows)):
        found += table.slice(at, size).to_batches()
        at += size
    return found


@given(st.lists(ROW, min_size=1, max_size=40), st.lists(st.integers(0, 9), max_size=5))
def test_packed_rows_hold_each_row(rows: list[tuple[Any, ...]], sizes: list[int]) -> None:
    """A client is packed once by each task; what is missing is an empty name, 0, or no quota."""
    parts = [part for some in batches_of(rows, sizes) for part in pack([some])]
    known = unpack_rows(pa.Table.from_batches(parts), COLUMNS)
    assert len(set(known.names)) == len(known.names)
    found = Counter(
        (*known.names[client], *values)
        for client, *values in zip(
            known.client.tolist(),
            *(column.tolist() for column in known.columns.values()),
            strict=True,
        )
    )
    assert found == Counter(
        (
            *(name or "" for name in row[:4]),
            *(row[place] or 0 for place in range(4, 8)),
            CODES.get(row[8], 0),
            row[9] or 0.0,
            row[10] or 0,
        )
        for row in rows
    )
