"""Refuses an output and a checkpoint that do not belong together.

The checkpoint says what was read, the tables which batches are written. With a new checkpoint and an old output rows
would be counted again; with an old checkpoint and a new output all that was read before would be missing. So both have
a file with the id of their stream, which its first start makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

ID_FILE: Final = "_stream_id"


def paired_id(spark: SparkSession, output: str, checkpoint: str, names: Iterable[str]) -> str:
    """Return the id of the stream of an output and a checkpoint; make it if both are new.

    `names` are the stream's queries: each has a table in the output and a folder in the checkpoint. Raises
    PipelineError if output and checkpoint belong to different streams, or if the checkpoint has lost its offsets.
    """
    outputs, checkpoints = FileSystem(spark, output), FileSystem(spark, checkpoint)
    written, read = _id(outputs, output), _id(checkpoints, checkpoint)
    begun = any(_has_offsets(checkpoints, f"{checkpoint}/{name}") for name in names)
    if written is None and any(outputs.exists(f"{output}/{name}") for name in names):
        raise PipelineError(
            f"{output} has tables of another job, or of a stream before Sluice wrote Delta tables. "
            "Give a new output and a new checkpoint"
        )
    if begun and written is None:
        raise PipelineError(
            f"{checkpoint} was used for another output than {output}. "
            "Give the output that it belongs to, or a new checkpoint"
        )
    if written is not None and written != read:
        raise PipelineError(
            f"{output} has the batches of another checkpoint than {checkpoint}. "
            "Give the checkpoint with which it was written, or a new output"
        )
    for name in names:
        folder = f"{checkpoint}/{name}"
        known = checkpoints.names(f"{folder}/state") or outputs.exists(f"{output}/{name}")
        if known and not _has_offsets(checkpoints, folder):
            raise PipelineError(
                f"{folder} has lost its offsets. Give a new output and a new checkpoint"
            )
    if read is None:
        read = str(uuid4())
        checkpoints.write(f"{checkpoint}/{ID_FILE}", read)
    if written is None:  # last: the run that writes it has found all others in order
        outputs.write(f"{output}/{ID_FILE}", read)
    return read


def _id(files: FileSystem, folder: str) -> str | None:
    uri = f"{folder}/{ID_FILE}"
    text = files.read(uri) if files.exists(uri) else ""
    return text or None  # a job that was killed may have left an empty file


def _has_offsets(files: FileSystem, folder: str) -> bool:
    return any(name.isdigit() for name in files.names(f"{folder}/offsets"))
