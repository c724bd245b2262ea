"""Packing keeps every second of every client, and raises what a throttle held back."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline.recommend.packed import (
    COLUMNS,
    MAX_LOST,
    NAMES,
    OTHER,
    RECORD,
    demand_rows,
    packed,
)
from pipeline.whatif.client_rows import pack_rows, records_of
from policies.quota.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_RATE
from tests.support.telemetry.usage_rows import START_MS, Row, frame, usage_row

NAME = st.sampled_from(["", "a", "b", "\u00e9", "long name"])
ROW = st.tuples(NAME, NAME, NAME, st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 1 << 20))
ROWS = st.lists(ROW, min_size=1, max_size=50)


@given(ROWS)
def test_each_client_has_all_of_its_seconds(
    rows: list[tuple[str, str, str, int, bool, int]],
) -> None:
    """One row of demand for each row of a client, with its sums."""
    columns: dict[str, list[object]] = {name: [0] * len(rows) for name in COLUMNS}
    columns |= {name: [row[n] for row in rows] for n, name in enumerate(NAMES)}
    columns |= {"boot": ["b1"] * len(rows), "charged": [row[5] for row in rows]}
    columns |= {"ts_ms": [row[3] * 1000 + 999 for row in rows]}
    columns |= {"enforcement": ["channel" if row[4] else None for row in rows]}
    columns |= {"blocked_ms": [500 if row[4] else 0 for row in rows]}
    clients_of_rows = pa.Table.from_batches([pack_rows(pa.table(columns))])
    done = pa.Table.from_batches([demand_rows(clients_of_rows)])
    records, counts = records_of(done.column("records"), RECORD)
    clients = list(zip(*(done.column(name).to_pylist() for name in NAMES), strict=True))
    assert len(set(clients)) == len(clients)
    found = [
        (*clients[client], int(record["second"]), float(record[REQUEST_RATE]))
        for client, record in zip(np.repeat(np.arange(len(counts)), counts), records, strict=True)
    ]
    wanted = [(i, u, c, at, n * (2.0 if blocked else 1.0)) for i, u, c, at, blocked, n in rows]
    assert sorted(found) == sorted(wanted)
    for place, client in enumerate(clients):
        mine = [row for row in rows if row[:3] == client]
        row = done.slice(place, 1).to_pylist()[0]
        assert (row["first_s"], row["last_s"]) == (min(r[3] for r in mine), max(r[3] for r in mine))
        assert row["seconds"] == len(mine)
        assert row["blocked_seconds"] == sum(r[4] for r in mine)
        assert row["requests"] == sum(each[4] for each in wanted if each[:3] == client)


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
    done = packed(frame(spark, "entity", rows)).collect()
    found = {row["client_id"]: row for row in done}
    requests: Counter[str] = Counter()
    for row in done:
        requests[row["client_id"]] += row["requests"]
    assert requests == {
        "free": 100,
        "channel": 200,
        "silenced": pytest.approx(100 / (1 - MAX_LOST)),
        "muted": 100,
        "waits": pytest.approx(100 / 0.75),
        OTHER: 300,
    }
    assert {row["user"] for row in done if row["client_id"] == OTHER} == {OTHER}
    assert {name for name, row in found.items() if row["blocked_seconds"]} == {
        "channel",
        "silenced",
        "waits",
    }
    records, _ = records_of(pa.chunked_array([pa.array([bytes(found["free"]["records"])])]), RECORD)
    (record,) = records
    assert record["second"] == START_MS // 1000
    assert (record[PRODUCER_BYTE_RATE], record[CONSUMER_BYTE_RATE]) == (1000, 50)
