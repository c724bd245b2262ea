"""An output and a checkpoint that do not belong together are refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.stream.checkpoints import check_checkpoint


def batches(folder: Path, *names: str) -> None:
    """Write files with the names of Spark's metadata."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("")


@pytest.mark.parametrize(
    ("written", "offsets", "commits"),
    [
        ((), (), ()),
        ((), ("0",), ()),
        (("0",), ("0",), ()),
        (("0", "9.compact", ".10.crc", "10"), ("9", "10", "11"), ("9", "10")),
    ],
    ids=["new", "begun", "written, not committed", "compacted"],
)
def test_any_moment_of_a_crash_is_accepted(
    spark: SparkSession, tmp_path: Path, written, offsets, commits
) -> None:
    """Offsets are written first, then the output, then the commit."""
    batches(tmp_path / "out" / "_spark_metadata", *written)
    batches(tmp_path / "cp" / "offsets", *offsets)
    batches(tmp_path / "cp" / "commits", *commits)
    check_checkpoint(spark, str(tmp_path / "out"), str(tmp_path / "cp"))


def test_an_old_output_with_a_new_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would leave out as many batches as the output has."""
    batches(tmp_path / "out" / "_spark_metadata", "0", "1")
    with pytest.raises(PipelineError, match=r"out has the batches of another checkpoint than .*cp"):
        check_checkpoint(spark, str(tmp_path / "out"), str(tmp_path / "cp"))


def test_an_old_checkpoint_with_a_new_output_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would leave out all that was read before."""
    batches(tmp_path / "cp" / "offsets", "0", "1")
    batches(tmp_path / "cp" / "commits", "0")
    with pytest.raises(PipelineError, match=r"cp was used for another output than .*out"):
        check_checkpoint(spark, str(tmp_path / "out"), str(tmp_path / "cp"))


def test_a_checkpoint_that_has_lost_its_offsets_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its state would be counted again."""
    batches(tmp_path / "cp" / "offsets", ".0.1234.tmp")
    batches(tmp_path / "cp" / "state", "0")
    with pytest.raises(PipelineError, match="cp has state but no offsets"):
        check_checkpoint(spark, str(tmp_path / "out"), str(tmp_path / "cp"))
