"""An output and a checkpoint that do not belong together are refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.stream.checkpoints import ID_FILE, paired_id

NAMES = ("a", "b")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the folder of the output."""
    return tmp_path / "out"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the folder of the checkpoint."""
    return tmp_path / "cp"


def begin(checkpoint: Path, name: str) -> None:
    """Write the offsets of a query's first batch."""
    offsets = checkpoint / name / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n")


def test_a_stream_keeps_its_id(spark: SparkSession, out: Path, checkpoint: Path) -> None:
    """Before, between and after its first batches; another stream has another id."""
    first = paired_id(spark, str(out), str(checkpoint), NAMES)
    begin(checkpoint, "a")
    second = paired_id(spark, str(out), str(checkpoint), NAMES)
    (out / "a").mkdir()
    third = paired_id(spark, str(out), str(checkpoint), NAMES)

    assert first == second == third
    assert paired_id(spark, f"{out}-2", f"{checkpoint}-2", NAMES) != first


def test_a_job_that_is_killed_at_its_first_start_goes_on(
    spark: SparkSession, out: Path, checkpoint: Path
) -> None:
    """While it wrote a file with the id, between the two, or while it wrote its first offsets."""
    checkpoint.mkdir()
    (checkpoint / ID_FILE).write_text("")
    first = paired_id(spark, str(out), str(checkpoint), NAMES)
    (out / ID_FILE).unlink()
    offsets = checkpoint / "a" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.1c5d7e6a-1c8d-4f0e-9d3e-5a3f2b1c0d9e.tmp").write_text("v1\n")

    assert paired_id(spark, str(out), str(checkpoint), NAMES) == first


def test_an_old_output_with_a_new_checkpoint_is_refused(
    spark: SparkSession, out: Path, checkpoint: Path
) -> None:
    """All rows would be there twice."""
    paired_id(spark, str(out), str(checkpoint), NAMES)
    with pytest.raises(PipelineError, match=r"out has the batches of another checkpoint than .*2"):
        paired_id(spark, str(out), f"{checkpoint}-2", NAMES)


def test_an_old_checkpoint_with_a_new_output_is_refused(
    spark: SparkSession, out: Path, checkpoint: Path
) -> None:
    """All that was read before would be missing."""
    paired_id(spark, str(out), str(checkpoint), NAMES)
    begin(checkpoint, "b")
    with pytest.raises(PipelineError, match=r"cp was used for another output than .*out-2"):
        paired_id(spark, f"{out}-2", str(checkpoint), NAMES)


def test_tables_of_an_earlier_version_are_refused(
    spark: SparkSession, out: Path, checkpoint: Path
) -> None:
    """They were files of Parquet, and their checkpoint has offsets."""
    (out / "b" / "_spark_metadata").mkdir(parents=True)
    begin(checkpoint, "b")
    with pytest.raises(PipelineError, match=r"out has tables .* before Sluice wrote Delta tables"):
        paired_id(spark, str(out), str(checkpoint), NAMES)


@pytest.mark.parametrize("there", ["out/a", "cp/a/state/0"])
def test_a_checkpoint_that_has_lost_its_offsets_is_refused(
    spark: SparkSession, tmp_path: Path, out: Path, checkpoint: Path, there: str
) -> None:
    """Its state would be counted again, and its table would leave out as many batches as it has."""
    paired_id(spark, str(out), str(checkpoint), NAMES)
    begin(checkpoint, "b")
    (tmp_path / there).mkdir(parents=True)
    with pytest.raises(PipelineError, match="cp/a has lost its offsets"):
        paired_id(spark, str(out), str(checkpoint), NAMES)
