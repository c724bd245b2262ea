"""The pipeline's tables without Spark and without Java: DuckDB asks, `deltalake` knows which files are the tables.

    pip install deltalake duckdb pyarrow
    python without_java.py TABLES                   prints who used what in each hour, and what is missing
    python without_java.py TABLES --sqlite FILE     writes the same to an SQLite file, such as Grafana reads
    python without_java.py TABLES --sql QUERY       answers a question of yours as CSV

TABLES is a folder, or a URI such as `s3://bucket/tables`; then the environment has AWS_REGION and the keys.
"""

import argparse
import csv
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import duckdb
from deltalake import DeltaTable

NAMES = (
    *("entity", "api", "topic", "instance", "access", "capture"),
    *("usage_hour", "usage_minute", "sequences", "quarantine"),
)
VIEWS = {
    # A rollup has partial sums: there is more than one row for an hour and a user until `maintain` has added them up.
    # The pipeline's own stream, if it reads its topic through Sluice, is nobody's usage.
    "usage_by_user": """
        SELECT ts_ms // 1000 AS time, user, sum(requests)::BIGINT AS requests,
               sum(request_bytes)::BIGINT AS request_bytes, sum(response_bytes)::BIGINT AS response_bytes,
               sum(throttled)::BIGINT AS throttled, sum(throttled) / nullif(sum(charged), 0) AS throttled_share,
               sum(throttle_ms) / 1000 AS delay_s
        FROM usage_hour WHERE family = 'entity' AND client_id IS DISTINCT FROM 'sluice-pipeline'
        GROUP BY ALL ORDER BY ALL
    """,
    # What `seq` leaves out between the ranges that are there, also before the first; quarantined lines are ranges, too.
    "gaps": """
        SELECT instance, boot, family, before + 1 AS first_seq, first_seq - 1 AS last_seq,
               first_seq - 1 - before AS lost
        FROM (SELECT *, max(last_seq) FILTER (rows > 0) OVER writer AS last_row,
                     coalesce(max(last_seq) OVER (writer ORDER BY first_seq, last_seq
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
              FROM sequences WINDOW writer AS (PARTITION BY instance, boot, family))
        WHERE first_seq > before + 1 AND first_seq <= last_row ORDER BY ALL
    """,
    "refused_lines": """
        SELECT family, reason, count(*) AS lines FROM quarantine GROUP BY ALL ORDER BY ALL
    """,
}


def connect(tables: str) -> duckdb.DuckDBPyConnection:
    """Return a connection that has the tables and VIEWS, all as they are at this moment.

    Rows of a batch that `ingest` has not completed are left out, as the pipeline's own jobs do.
    """
    connection = duckdb.connect()
    there = {name for name in (*NAMES, "batches") if DeltaTable.is_deltatable(f"{tables}/{name}")}
    if "batches" not in there:
        sys.exit(f"{tables}: no table `batches` is there; expected the folder that `ingest` writes")
    ended = DeltaTable(f"{tables}/batches").to_pyarrow_dataset()
    connection.register("batches", ended)
    ((last,),) = connection.execute("SELECT coalesce(max(batch), -1) FROM batches").fetchall()
    for name in sorted(there - {"batches"}):
        connection.register(f"all_{name}", DeltaTable(f"{tables}/{name}").to_pyarrow_dataset())
        connection.execute(f"CREATE VIEW {name} AS FROM all_{name} WHERE batch <= {last:d}")
    for name, query in VIEWS.items():
        try:
            connection.execute(f"CREATE VIEW {name} AS {query}")
        except duckdb.CatalogException:  # of a table that is not there: nothing was refused yet
            continue
    return connection


def views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return which of VIEWS the tables have rows for."""
    found = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    return [name for name in VIEWS if (name,) in found]


def write_sqlite(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Write the views as tables of an SQLite file, which changes at once or not at all."""
    with closing(sqlite3.connect(file)) as target, target:
        target.execute("BEGIN")
        for name in views(connection):
            found = connection.execute(f"FROM {name}")
            columns = [each[0] for each in found.description or ()]
            places = ", ".join("?" * len(columns))
            target.execute(f"DROP TABLE IF EXISTS {name}")
            target.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            target.executemany(f"INSERT INTO {name} VALUES ({places})", found.fetchall())  # noqa: S608 - as above


def print_csv(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Print the rows of a query."""
    found = connection.execute(query)
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(each[0] for each in found.description or ())
    lines.writerows(found.fetchall())


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables")
    parser.add_argument("--sqlite", type=Path, metavar="FILE")
    parser.add_argument("--sql", metavar="QUERY")
    given = parser.parse_args()
    connection = connect(given.tables.rstrip("/"))
    if given.sqlite:
        write_sqlite(connection, given.sqlite)
    elif given.sql:
        print_csv(connection, given.sql)
    else:
        for name in views(connection):
            print(f"-- {name}")
            print_csv(connection, f"FROM {name}")


if __name__ == "__main__":
    main()
