"""In how many partitions a stream keeps its state: the cores of the cluster at its first start.

Spark notes the number in the checkpoint and keeps it, because the state of a client is found by it. So it is chosen
once, and told at each start.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from pipeline.hadoop import FileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

PARTITIONS: Final = "spark.sql.shuffle.partitions"
_SETTLE_SECONDS: Final = 5


def set_partitions(spark: SparkSession, checkpoint: str, names: Iterable[str]) -> str:
    """Set the number of partitions of a stream with the queries `names`, and return a line that tells it.

    It is that of the checkpoint; in a new one that of `--conf` or of a local session, or else the cores of all
    executors.
    """
    for name in names:
        kept = _kept(spark, f"{checkpoint}/{name}")
        if kept is not None:
            spark.conf.set(PARTITIONS, kept)
            return f"this stream keeps the {kept} partitions of its first start"
    if not spark.sparkContext.getConf().contains(PARTITIONS):
        spark.conf.set(PARTITIONS, _cores(spark))
    number = spark.conf.get(PARTITIONS)
    return f"this stream has {number} partitions, and keeps them when it is started again"


def _kept(spark: SparkSession, folder: str) -> str | None:
    """Return the partitions of a query's checkpoint, from its last offsets; None if it has none."""
    files = FileSystem(spark, folder)
    batches = [int(name) for name in files.names(f"{folder}/offsets") if name.isdigit()]
    if not batches:
        return None
    lines = files.read(f"{folder}/offsets/{max(batches)}").splitlines()
    found = json.loads(lines[1])["conf"].get(PARTITIONS)  # after the version
    return None if found is None else str(found)


def _cores(spark: SparkSession) -> int:
    """Return the cores of all executors, once no further one has come for some seconds."""
    context = spark.sparkContext
    context.parallelize([0], 1).count()  # returns when there is an executor
    found, since = context.defaultParallelism, time.monotonic()
    while time.monotonic() < since + _SETTLE_SECONDS:
        time.sleep(0.1)
        if context.defaultParallelism != found:
            found, since = context.defaultParallelism, time.monotonic()
    return found
