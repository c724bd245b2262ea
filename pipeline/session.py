"""Opens the Spark session of a job.

Rules:
- Under `spark-submit` the cluster, the memory and the Python of the workers are those of its options.
- A local master uses this Python for its workers, the loopback address and one shuffle partition per core. Spark's own
  default is `python3` of PATH, which may lack pyarrow.
- Workers on other machines get the pipeline's code as a zip; numpy and pyarrow are part of their image.
- All times are UTC.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from pipeline.code_zip import write_code_zip
from pipeline.java import find_java, java_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_MASTER: Final = "local[*]"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.log.level": "ERROR",
}
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def open_session(
    app: str,
    *,
    master: str | None = None,
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session, the present one if there is one. `settings` overrides Spark's settings of the same name.

    Raises PipelineError if there is no Java.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = dict(_SETTINGS)
    if not submitted:
        master = master or DEFAULT_MASTER
        os.environ["JAVA_HOME"] = str(java_home(find_java()))
        chosen["spark.master"] = master
        chosen["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        if is_local(master):
            chosen |= _LOCAL_SETTINGS
            chosen["spark.sql.shuffle.partitions"] = str(_cores(master))
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if jars:
        chosen["spark.jars"] = ",".join(map(str, jars))
    chosen |= settings or {}
    builder = SparkSession.builder.appName(app)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if submitted or not is_local(chosen["spark.master"]):
        code = Path(tempfile.mkdtemp(prefix="sluice-code-")) / "sluice.zip"
        write_code_zip(code)
        spark.sparkContext.addPyFile(str(code))
    return spark


def is_local(master: str) -> bool:
    """Return whether the workers are threads of this process and children of it."""
    return master == "local" or master.startswith("local[")


def _cores(master: str) -> int:
    told = master.removeprefix("local").strip("[]").partition(",")[0]
    return int(told) if told.isdigit() else os.cpu_count() or 1
