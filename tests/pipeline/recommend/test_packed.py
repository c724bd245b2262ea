"""Packing keeps every second of every client, and raises what a throttle held back."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline.recommend.packed import MAX_LOST, NAMES, OTHER, pack_rows, packed, unpack
from policies.quota.entity import CONSUMER_BYTE_RATE, KEYS, PRODUCER_BYTE_RATE, REQUEST_RATE
from tests.support.usage_rows import START_MS, Row, frame, usage_row

NAME = st.sampled_from(["", "a", "b", "\u00e9", "long name"])
ROWS = st.lists(
    st.tuples(NAME, NAME, NAME, st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 1 << 20)),
    min_size=1,
    max_size=50,
)


@given(ROWS)
def test_rows_are_unpacked_as_they_were_packed(
    rows: list[tuple[str, str, str, int, bool, int]],
) -> None:
    """Each client has one row, with its seconds in order and its sums."""
    names = (*NAMES, "second", "blocked", REQUEST_RATE)
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    amounts = pa.array(columns[REQUEST_RATE], pa.float32())
    table = pa.table({**columns, **dict.fromkeys(KEYS, amounts)})
    done = pa.Table.from_batches([pack_rows(table)])
    records, counts = unpack(done.column("records"))
    clients = list(zip(*(done.column(name).to_pylist() for name in NAMES), strict=True))
    assert len(set(clients)) == len(clients)
    found = [
        (*clients[client], int(record["second"]), float(record[REQUEST_RATE]))
        for client, record in zip(np.repeat(np.arange(len(counts)), counts), records, strict=True)
    ]
    assert sorted(found) == sorted((i, u, c, at, float(n)) for i, u, c, at, _, n in rows)
    for place, client in enumerate(clients):
        mine = [row for row in rows if row[:3] == client]
        row = done.slice(place, 1).to_pylist()[0]
        assert (row["first_s"], row["last_s"]) == (min(r[3] for r in mine), max(r[3] for r in mine))
        assert row["seconds"] == len(mine)
        assert row["blocked_seconds"] == sum(r[4] for r in mine)
        assert row["requests"] == sum(r[5] for r in mine)


def row_of(client_id: str, **columns: object) -> Row:
    return usage_row("entity", client_id=client_id, charged=100, connections=2, **columns)


def test_demand_is_what_a_client_would_have_sent(spark: SparkSession) -> None:
    """Time that throttles took is taken out; the mutes between requests of enforcement `entity` are not lost time."""
    rows = [
        row_of("free", charged_bytes=1000, response_bytes=50),
        row_of("channel", enforcement="channel", quota_rate=100.0, blocked_ms=1000),
        row_of("silenced", enforcement="channel", quota_rate=1.0, blocked_ms=2000),
        row_of("muted", enforcement="entity", quota_rate=100.0, blocked_ms=1000),
        row_of("waits", enforcement="entity", quota_rate=100.0, blocked_ms=2000),
        row_of("<default>"),
        row_of("x" * 1024),
        row_of("cut", user=OTHER),
    ]
    found = {row["client_id"]: row for row in packed(frame(spark, "entity", rows)).collect()}
    requests = {name: row["requests"] for name, row in found.items()}
    assert requests == {
        "free": 100,
        "channel": 200,
        "silenced": pytest.approx(100 / (1 - MAX_LOST)),
        "muted": 100,
        "waits": pytest.approx(100 / 0.75),
        OTHER: 300,
    }
    assert found[OTHER]["user"] == OTHER
    assert {name for name, row in found.items() if row["blocked_seconds"]} == {
        "channel",
        "silenced",
        "waits",
    }
    records, _ = unpack(pa.chunked_array([pa.array([bytes(found["free"]["records"])])]))
    (record,) = records
    assert record["second"] == START_MS // 1000
    assert (record[PRODUCER_BYTE_RATE], record[CONSUMER_BYTE_RATE]) == (1000, 50)
