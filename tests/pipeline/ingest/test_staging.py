"""The staging folder: a run that dies changes nothing, or is finished by the next."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.staging import Staging


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def contents(tables: Path) -> dict[str, str]:
    return {
        str(path.relative_to(tables)): path.read_text("utf-8")
        for path in tables.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_folders_are_replaced_when_the_run_commits(spark: SparkSession, tmp_path: Path) -> None:
    """Each as a whole; others stay, and those that became empty are deleted."""
    for name in ("a/dt=1/old", "a/dt=2/old", "b/dt=1/old"):
        put(tmp_path / name, "old")
    staging = Staging(spark, str(tmp_path))
    staging.begin()
    put(Path(staging.table("a")) / "dt=1/new", "new")
    put(Path(staging.table("a")) / "_SUCCESS", "")
    assert {name for name in contents(tmp_path) if name[0] != "_"} == {
        *("a/dt=1/old", "a/dt=2/old", "b/dt=1/old"),
    }
    staging.commit(["b/dt=1", "b/dt=2"])

    assert contents(tmp_path) == {"a/dt=1/new": "new", "a/dt=2/old": "old"}


def test_a_run_that_died_before_its_commit_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next run deletes its folder."""
    put(tmp_path / "a/dt=1/old", "old")
    dying = Staging(spark, str(tmp_path))
    dying.begin()
    put(Path(dying.table("a")) / "dt=1/new", "new")
    fresh = Staging(spark, str(tmp_path))
    fresh.begin()
    fresh.discard()

    assert contents(tmp_path) == {"a/dt=1/old": "old"}


@pytest.mark.parametrize("moves", [0, 1, 4])
def test_a_run_that_died_during_its_commit_is_finished(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """After each number of moves, on the real file system."""
    for name in ("a/dt=1/old", "b/dt=1/old", "c/dt=1/old"):
        put(tmp_path / name, "old")
    dying = Staging(spark, str(tmp_path))
    dying.begin()
    for name in ("a/dt=1/new", "b/dt=1/new"):
        put(Path(dying.table(name)), "new")
    rename, left = dying._fs.rename, moves

    def die(uri: str, target: str) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        rename(uri, target)

    monkeypatch.setattr(dying._fs, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        dying.commit(["c/dt=1"])
    dying.discard()
    fresh = Staging(spark, str(tmp_path))
    fresh.begin()
    fresh.discard()

    assert contents(tmp_path) == {"a/dt=1/new": "new", "b/dt=1/new": "new"}


def test_of_two_runs_at_once_the_first_fails(spark: SparkSession, tmp_path: Path) -> None:
    """It says why, and the tables are the second one's."""
    first, second = (Staging(spark, str(tmp_path)) for _ in range(2))
    for staging in (first, second):
        staging.begin()
        put(Path(staging.table("a/part")), staging.run)
    with pytest.raises(PipelineError, match="another ingest of these tables"):
        first.commit()
    second.commit()

    assert contents(tmp_path) == {"a/part": second.run}


def test_a_file_system_that_is_not_there_is_named(spark: SparkSession) -> None:
    """The error has the URI and the scheme that Spark does not know."""
    with pytest.raises(PipelineError, match=r'nowhere://host/tables/_ingest: .*scheme "nowhere"'):
        Staging(spark, "nowhere://host/tables")
