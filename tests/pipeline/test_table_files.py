"""The rows of a table from its files: the same as row by row through Spark."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline import table_files, tables
from pipeline.errors import PipelineError
from pipeline.recommend.packed import COLUMNS
from pipeline.schema import API, ENTITY
from pipeline.table_files import TableFiles, rows_of_files
from pipeline.tables import TimeRange
from pipeline.whatif.client_rows import packed_clients, unpack_rows
from tests.support.telemetry.usage_rows import START_MS, Row, frame, numbered, usage_row

LATER_MS = START_MS + 7_000
KINDS = to_arrow_schema(ENTITY)


def used(second: int, **columns: object) -> Row:
    charged = columns.pop("charged", second + 1)
    return usage_row(
        "entity", ts_ms=START_MS + second * 1000, charged=charged, connections=2, **columns
    )


ROWS = [
    *(used(second, user="alice", client_id="etl") for second in range(10)),
    *(used(second, user="alice", client_id="app", instance="pod-2") for second in range(5, 10)),
    used(3, user=None, client_id="app", blocked_ms=5, enforcement="channel", quota_rate=2.5),
    used(9, user=None, client_id=None, enforcement="entity", quota_rate=7.5, response_bytes=1),
]


def rows_of(clients: DataFrame) -> Counter[tuple[object, ...]]:
    known = unpack_rows(clients.toArrow(), COLUMNS)
    columns = [column.tolist() for column in known.columns.values()]
    return Counter(
        (known.names[client], *values)
        for client, *values in zip(known.client.tolist(), *columns, strict=True)
    )


@pytest.fixture(scope="module")
def uri(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with two hours of files, one of them by a version that has a column more."""
    folder = tmp_path_factory.mktemp("tables")
    for hour, rows in enumerate((ROWS, [used(20, user="bob", client_id="app")])):
        made = frame(spark, "entity", numbered(rows))
        if hour:
            made = made.withColumn("of_later", lit("x"))
        path = f"{tables.table_uri(str(folder), 'entity')}/dt=2025-11-21/hour={hour}"
        made.repartition(2).write.parquet(path)
    return str(folder)


@pytest.mark.parametrize("span", [TimeRange(), TimeRange(LATER_MS, LATER_MS + 2_000)])
def test_files_have_the_rows_that_spark_reads(
    spark: SparkSession,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    span: TimeRange,
) -> None:
    """Of all of the time, and of parts of it; files that are too large go through Spark."""
    from_files = packed_clients(TableFiles.open(spark, uri, "entity"), COLUMNS, span)
    monkeypatch.setattr(table_files, "MAX_FILE_BYTES", 1)
    by_rows = packed_clients(TableFiles.open(spark, uri, "entity"), COLUMNS, span)
    for each in (from_files, by_rows):
        each.explain()
        assert ("binaryFile" in capsys.readouterr().out) is (each is from_files)

    found = rows_of(from_files)
    assert found == rows_of(by_rows)
    assert found.total() == sum(
        (span.first_ms or 0) <= row["ts_ms"] < (span.end_ms or 1 << 60)
        for row in (*ROWS, used(20, user="bob", client_id="app"))
    )


def test_an_absent_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """With the way out, as for all jobs."""
    with pytest.raises(PipelineError, match="Write the tables first"):
        TableFiles.open(spark, str(tmp_path), "entity")


def parquet(rows: list[Row], kinds: pa.Schema = KINDS, group_rows: int = 100) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, kinds), out, row_group_size=group_rows)
    return out.getvalue().to_pybytes()


def decoded(content: bytes, first_ms: int | None = None) -> list[pa.RecordBatch]:
    files = pa.RecordBatch.from_pydict({"path": ["file:/t/one.parquet"], "content": [content]})
    return list(rows_of_files([files], "entity", COLUMNS, TimeRange(first_ms)))


def test_groups_of_rows_from_before_the_time_are_not_decoded() -> None:
    """Of a file with three of them the first is left out whole, of the second a part."""
    rows = [used(second, user="u", client_id="c") for second in range(12)]
    found = decoded(parquet(rows, group_rows=4), START_MS + 6_000)
    seconds = [(ms - START_MS) // 1000 for b in found for ms in b.column("ts_ms").to_pylist()]
    assert seconds == list(range(6, 12))
    assert decoded(parquet(rows), START_MS + 99_000) == []


def test_a_column_that_a_file_lacks_is_null() -> None:
    """As Spark has it for the files of an older version."""
    older = pa.schema([field for field in KINDS if field.name not in ("enforcement", "charged")])
    rows = [{name: row[name] for name in older.names} for row in ROWS]
    found = pa.Table.from_batches(decoded(parquet(rows, older)))
    assert found.column("charged").null_count == found.column("enforcement").null_count == len(ROWS)
    assert found.column("connections").to_pylist() == [2] * len(ROWS)


def of_another_type() -> bytes:
    strange = KINDS.set(KINDS.get_field_index("charged"), pa.field("charged", pa.string()))
    return parquet([used(1, charged="3")], strange)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (of_another_type, "'charged' of type int64, found string"),
        (lambda: b"", "Parquet"),
        (lambda: parquet(ROWS)[:-20], "Parquet"),
        (lambda: b"PAR1" + bytes(64) + b"PAR1", "one.parquet cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: Callable[[], bytes], words: str) -> None:
    """Not Parquet, cut short, or with another type: nothing of it is counted in silence."""
    with pytest.raises(PipelineError, match=r"^file:/t/one\.parquet cannot be read: ") as raised:
        decoded(content())
    assert words in str(raised.value)


def test_a_list_whose_elements_are_never_null_is_the_same_list() -> None:
    """Spark writes it so; a list of other numbers is refused by the file's name."""
    kinds = to_arrow_schema(API)
    row = usage_row("api", upstream_i=[80, 81], upstream_n=[3, 4])
    columns = ["ts_ms", "upstream_i", "upstream_n"]

    def read(number: pa.DataType) -> list[pa.RecordBatch]:
        never_null = pa.list_(pa.field("element", number, nullable=False))
        place = kinds.get_field_index("upstream_i")
        made = parquet([row], kinds.set(place, pa.field("upstream_i", never_null)))
        files = pa.RecordBatch.from_pydict({"path": ["file:/t/api.parquet"], "content": [made]})
        return list(rows_of_files([files], "api", columns))

    (found,) = read(pa.int32())
    assert found.schema.field("upstream_i").type == kinds.field("upstream_i").type
    assert found.column("upstream_i").to_pylist() == [[80, 81]]
    with pytest.raises(PipelineError, match=r"api\.parquet .*'upstream_i'"):
        read(pa.int64())


def test_rows_of_a_time_need_not_have_their_time() -> None:
    """A job that asks for other columns gets only those, of the rows of the time."""
    rows = [used(second, user="u", client_id="c") for second in range(4)]
    files = pa.RecordBatch.from_pydict({"path": ["file:/t/a.parquet"], "content": [parquet(rows)]})
    span = TimeRange(START_MS + 1_000, START_MS + 3_000)
    (found,) = rows_of_files([files], "entity", ["charged"], span)
    assert found.to_pydict() == {"charged": [2, 3]}
