"""Refuses an output and a checkpoint that do not belong together.

Spark would not: with a new checkpoint and an old output it skips as many batches as the output has, without a word.
With an old checkpoint and a new output it leaves out all that was read before. Its own check of a new checkpoint is
off, because it also refuses what a job leaves that was killed while it wrote its first offsets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_checkpoint(spark: SparkSession, output: str, checkpoint: str) -> None:
    """Raise PipelineError if a batch of `output` was not begun by `checkpoint`, or one of it is not in `output`, or if
    the state of the checkpoint belongs to no batch.

    Both are URIs of one query: a folder that Spark's file sink writes, and the query's checkpoint.
    """
    written = _last(spark, f"{output}/_spark_metadata")
    begun = _last(spark, f"{checkpoint}/offsets")
    done = _last(spark, f"{checkpoint}/commits")
    if written > begun:
        raise PipelineError(
            f"{output} has the batches of another checkpoint than {checkpoint}. "
            "Give the checkpoint with which it was written, or a new output"
        )
    if done > written:
        raise PipelineError(
            f"{checkpoint} was used for another output than {output}. "
            "Give the output that it belongs to, or a new checkpoint"
        )
    if begun < 0 and FileSystem(spark, checkpoint).names(f"{checkpoint}/state"):
        raise PipelineError(f"{checkpoint} has state but no offsets. Give a new checkpoint")


def _last(spark: SparkSession, uri: str) -> int:
    """Return the number of the last batch in a folder of Spark's metadata; -1 if there is none."""
    names = FileSystem(spark, uri).names(uri)
    return max(
        (int(found[1]) for name in names if (found := re.match(r"(\d+)(?:\.compact)?$", name))),
        default=-1,
    )
