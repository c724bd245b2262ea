"""`python -m bench.pipeline.made_tables FOLDER ROWS LARGE LOG SPANS`: makes the input of the benchmark in a folder.

These are tables of so many rows, larger ones, a usage log, and a file of traces; those that are there are kept. The
tables are as `ingest` leaves them: a folder for each hour, sorted by user, client id, instance and time.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench.pipeline.made_rows import (
    ENTITIES,
    HOUR_S,
    INSTANCES,
    START_MS,
    api_rows,
    demand,
    entity_rows,
    seconds_of,
)
from bench.pipeline.made_traces import make_traces
from pipeline.session import open_session
from pipeline.tables import table_uri

FILES: Final = 4
"""Files of one family and hour."""
ABOUT: Final = "README"
FOLDERS: Final = {
    "small": "tables-{count}",
    "large": "tables-{count}",
    "log": "usage-log-{count}",
    "traces": "traces-{count}.jsonl",
    "quotas": "quotas.yaml",
}
"""The names of what is made, in the folder of the benchmark."""


def make_tables(spark: SparkSession, folder: Path, rows: int) -> Path:
    """Write about so many rows of the family `entity` and their rows of `api`, once; return the folder."""
    if (folder / ABOUT).exists():
        return folder
    seconds = seconds_of(rows)
    for first_s in range(0, seconds, HOUR_S):
        need = demand(spark, first_s, min(first_s + HOUR_S, seconds), FILES)
        hour = datetime.fromtimestamp(START_MS / 1000 + first_s, UTC).strftime(
            "dt=%Y-%m-%d/hour=%H"
        )
        for family, made in {"entity": entity_rows(need), "api": api_rows(need)}.items():
            made.write.mode("overwrite").parquet(f"{table_uri(str(folder), family)}/{hour}")
    counted = {
        family: spark.read.parquet(table_uri(str(folder), family)).count()
        for family in ("entity", "api")
    }
    about = {"rows": counted, "seconds": seconds, "entities": ENTITIES, "instances": INSTANCES}
    (folder / ABOUT).write_text(json.dumps(about))
    return folder


def rows_in(folder: Path) -> dict[str, int]:
    """Return how many rows of each family `make_tables` wrote."""
    counted: dict[str, int] = json.loads((folder / ABOUT).read_text())["rows"]
    return counted


def make_usage_log(spark: SparkSession, folder: Path, rows: int) -> Path:
    """Write about so many rows of the family `entity` as JSON lines, once; return the folder. `seq` has no gaps."""
    if (folder / ABOUT).exists():
        return folder
    need = demand(spark, 0, seconds_of(rows), FILES)
    numbered = entity_rows(need).selectExpr(
        "* except (seq)",
        "row_number() over (partition by instance order by ts_ms, client_id) as seq",
    )
    day = datetime.fromtimestamp(START_MS / 1000, UTC).strftime("dt=%Y-%m-%d")
    _as_json(numbered, folder / "entity" / day)
    (folder / ABOUT).write_text(json.dumps({"rows": {"entity": numbered.count()}}))
    return folder


def _as_json(rows: DataFrame, folder: Path) -> None:
    rows.write.mode("overwrite").option("ignoreNullFields", value=False).json(str(folder))
    for number, file in enumerate(sorted(folder.glob("*.json")), 1):
        file.rename(folder / f"entity-made-0000000000000001-{number:06}.jsonl")


def make_quotas(file: Path) -> Path:
    """Write a quota file with a request rate for every user, less than many of them need; return the file."""
    quotas = [
        {"user": f"user-{user:03}", "request_rate": 20.0 + user % 10 * 20}
        for user in range(ENTITIES // 2)
    ]
    file.write_text(json.dumps({"version": 1, "quotas": quotas}))
    return file


def main(arguments: list[str]) -> int:
    """Make the input; print how many rows and spans the usage log and the traces have."""
    folder = Path(arguments[0])
    rows, large, log_rows, spans = map(int, arguments[1:])
    spark = open_session("made-up tables")
    make_tables(spark, folder / FOLDERS["small"].format(count=rows), rows)
    make_tables(spark, folder / FOLDERS["large"].format(count=large), large)
    log = make_usage_log(spark, folder / FOLDERS["log"].format(count=log_rows), log_rows)
    spark.stop()
    traces = make_traces(folder / FOLDERS["traces"].format(count=spans), spans)
    make_quotas(folder / FOLDERS["quotas"])
    print(json.dumps({"log": rows_in(log)["entity"], "traces": traces}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
