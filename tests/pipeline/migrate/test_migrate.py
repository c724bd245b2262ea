"""The job `migrate`: tables that an older Sluice has written, as the ones that `ingest` writes of the same log.

`parquet_tables.tar.gz` is of commit 91b623fe: the usage log, and the Parquet tables that its `ingest` wrote of it.
"""

import os
import shutil
import tarfile
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import delta, tables
from pipeline.errors import PipelineError
from pipeline.ingest.job import Ingest
from pipeline.migrate import migrate
from pipeline.rollups import ROLLUPS
from pipeline.schema import FAMILIES
from pipeline.tables import TimeRange
from pipeline.usage import read_usage

WRITTEN = Path(__file__).with_name("parquet_tables.tar.gz")
NOW_MS = 1_763_773_200_000


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a folder with `log` and `tables` as they were; the table of files names the files where they are now."""
    folder = tmp_path / "old"
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "tables/files").rglob("*.parquet"):
        found = pq.read_table(path).to_pylist()
        for row in found:
            at_ns = row["modified_ms"] * 1_000_000
            row["path"] = f"file:{folder}/log/" + row["path"].partition("/log/")[2]
            os.utime(row["path"].removeprefix("file:"), ns=(at_ns, at_ns))
        pq.write_table(pa.Table.from_pylist(found), path)
    return folder


def run(spark: SparkSession, folder: Path, new: Path) -> list[str]:
    return list(migrate(spark, str(folder / "tables"), str(new)))


def files_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def content(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Return all that jobs see of tables."""
    uri = str(folder)
    found: dict[str, object] = {
        family: sorted(map(repr, tables.read(spark, uri, family).collect())) for family in FAMILIES
    }
    for name, columns in {
        "quarantine": ("reason", "family", "line", "dt"),
        "sequences": ("family", "dt", "hour", "instance", "boot", "first_seq", "last_seq", "rows"),
    }.items():
        table = tables.maybe_read(spark, uri, name)
        assert table is not None
        found[name] = sorted(map(repr, table.select(*columns).collect()))
    for by in (["user", "api", "minute"], ["topic", "hour"], ["client_id", "instance"]):
        found[",".join(by)] = sorted(map(repr, read_usage(spark, uri, by, TimeRange()).collect()))
    return found | {"missing": tables.read_missing_rows(spark, uri, list(FAMILIES))}


def test_migrated_tables_are_those_of_an_ingest_of_the_log(
    spark: SparkSession, old: Path, tmp_path: Path
) -> None:
    """Each row, figure and gap is the same; `ingest` then reads no file again, and the old tables are as they were."""
    before = files_below(old)
    told = run(spark, old, tmp_path / "new")
    assert files_below(old) == before
    Ingest(spark, str(old / "log"), str(tmp_path / "fresh"), NOW_MS).run()
    assert content(spark, tmp_path / "new") == content(spark, tmp_path / "fresh")
    for name in ROLLUPS:
        assert (tmp_path / "new" / name / "_delta_log").is_dir()
    assert "entity: 118 rows" in told
    assert "files: 20 were read before" in told

    again = Ingest(spark, str(old / "log"), str(tmp_path / "new"), NOW_MS).run()
    assert (again.files_read, again.files_known, again.rows_added) == (0, 20, {})
    assert again.lost_rows == {"entity": 2}


@pytest.mark.slow
def test_it_is_done_once_and_goes_on_where_it_was_stopped(
    spark: SparkSession, old: Path, tmp_path: Path
) -> None:
    """No ingest begins with tables that are half migrated."""
    new = tmp_path / "new"
    for lines in (1, 3, 6):
        assert len(list(islice(migrate(spark, str(old / "tables"), str(new)), lines))) == lines
        with pytest.raises(PipelineError, match="run sluice-pipeline migrate again"):
            Ingest(spark, str(old / "log"), str(new), NOW_MS).run()
    run(spark, old, new)
    first = content(spark, new)
    assert first["missing"].line is not None  # type: ignore[attr-defined]  # MissingRows
    assert run(spark, old, new)[0].endswith("nothing to do")
    assert content(spark, new) == first


@pytest.mark.slow
def test_columns_that_the_old_tables_lack_are_null(
    spark: SparkSession, old: Path, tmp_path: Path
) -> None:
    """One with another type is refused with its name."""
    for path in (old / "tables/entity").rglob("*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop(["quota_rev"]), path)
    run(spark, old, tmp_path / "new")
    found = tables.read(spark, str(tmp_path / "new"), "entity")
    assert {row[0] for row in found.select("quota_rev").collect()} == {None}

    for path in (old / "tables/entity").rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None)
        names = pa.array(["many"] * table.num_rows)
        place = table.column_names.index("requests")
        pq.write_table(table.set_column(place, "requests", names), path)
    with pytest.raises(PipelineError, match="'requests' of type bigint, the table has string"):
        run(spark, old, tmp_path / "other")


@pytest.mark.slow
def test_what_cannot_be_migrated_is_said_in_a_line(
    spark: SparkSession, old: Path, tmp_path: Path
) -> None:
    """Nothing is written then."""
    there = tmp_path / "there"
    Ingest(spark, str(old / "log"), str(there), NOW_MS).run()
    (tmp_path / "empty").mkdir()
    for source, new, words in (
        (old / "tables", there, "that were not migrated"),
        (old / "tables", old / "tables", "another folder"),
        (tmp_path / "empty", tmp_path / "new", "no tables of an older Sluice"),
        (there, tmp_path / "new", "tables of this version"),
    ):
        with pytest.raises(PipelineError, match=words):
            list(migrate(spark, str(source), str(new)))
    (old / "tables/_ingest/1-a").mkdir(parents=True)
    with pytest.raises(PipelineError, match="an ingest runs, or was broken off"):
        run(spark, old, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    shutil.rmtree(old / "tables/_ingest")


def test_old_tables_are_named_as_such(spark: SparkSession, old: Path) -> None:
    """A job that is given them says how to go on."""
    with pytest.raises(PipelineError, match="sluice-pipeline migrate"):
        tables.read(spark, str(old / "tables"), "entity")
    assert delta.maybe_read(spark, str(old / "tables/entity")) is None
