"""Rows of every family of the usage log as the proxy writes them: a test gives the columns that it is about."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipeline.schema import FAMILIES, VERSION, WINDOW_MS
from pipeline.whatif.client_rows import ClientRows, pack_rows, unpack_rows

START_MS = 1_763_683_200_000  # 2025-11-21 00:00 UTC
Row = dict[str, Any]
_NULL = {"enforcement", "quota_entity", "quota_rate", "quota_rev", "node", "acks"}
_TEXT = {"api": "Produce", "verdict": "forward", "outcome": "replied", "version": "0.1.0"}


def usage_row(family: str, **columns: object) -> Row:
    """Return a row of a family with these columns; all others count nothing."""
    row: Row = {}
    for field in FAMILIES[family]:
        kind = field.dataType.simpleString()
        if field.name in _NULL:
            row[field.name] = None
        elif kind.startswith("array"):
            row[field.name] = []
        elif kind == "string":
            row[field.name] = _TEXT.get(field.name, "")
        else:
            row[field.name] = False if kind == "boolean" else 0.0 if kind == "double" else 0
    row |= {"family": family, "v": VERSION, "instance": "pod-1", "boot": "b1", "ts_ms": START_MS}
    if "window_ms" in row:
        row["window_ms"] = WINDOW_MS
    strange = columns.keys() - row.keys()
    assert not strange, f"not columns of {family}: {sorted(strange)}"
    row |= columns
    if "delay_i" in row and "delay_i" not in columns:  # no request was followed by a pause
        row["delay_i"], row["delay_n"] = row["throttle_i"], row["throttle_n"]
    return row


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with `seq` from 1 within each writer and family."""
    last: dict[tuple[str, str, str], int] = {}
    counted = []
    for row in rows:
        writer = (row["instance"], row["boot"], row["family"])
        last[writer] = last.get(writer, 0) + 1
        counted.append(row | {"seq": last[writer]})
    return counted


def frame(spark: SparkSession, family: str, rows: Iterable[Row]) -> DataFrame:
    """Return rows of one family as a DataFrame with the schema of the family."""
    schema = FAMILIES[family]
    return spark.createDataFrame(
        [tuple(row[name] for name in schema.names) for row in rows], schema
    )


def client_rows(rows: pa.Table) -> ClientRows:
    """Return rows of the family `entity` as a simulation has them."""
    packed = pa.Table.from_batches([pack_rows(rows)])
    return unpack_rows(packed, rows.column_names)


def write_usage_log(folder: Path, rows: Iterable[Row]) -> None:
    """Write rows as closed files of a usage log: FAMILY/dt=DAY/FAMILY-INSTANCE-BOOT-NUMBER.jsonl."""
    files: dict[Path, list[str]] = {}
    for row in rows:
        family = row["family"]
        day = _day(row["ts_ms"])
        name = f"{family}-{row['instance']}-{row['boot']}-000001.jsonl"
        files.setdefault(folder / family / f"dt={day}" / name, []).append(json.dumps(row))
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _day(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d")
