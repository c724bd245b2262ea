"""Opens the Spark session of a job.

Rules:
- Under `spark-submit` the cluster, the memory and the Python of the workers are those of its options.
- A local master uses this Python for its workers, the loopback address and one shuffle partition per core. Spark's own
  default is `python3` of PATH, which may lack pyarrow.
- Workers on other machines get the pipeline's code as a zip; numpy and pyarrow are part of their image.
- Spark's log is errors only; a configuration of the user's own is left alone.
- Jars, those of Delta Lake always, reach Spark before its JVM starts. Under `spark-submit` it runs already, so `--jars`
  must name them.
- All times are UTC.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pipeline.code_zip import write_code_zip
from pipeline.hadoop import JAVA_ENDED
from pipeline.jars import DELTA, locked_jars
from pipeline.java import find_java, java_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEFAULT_MASTER: Final = "local[*]"
_LOG_PROPERTY: Final = "log4j2.configurationFile"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Java never compiles a larger method; by Spark's own limit of 65535 bytes it would be interpreted row by row.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.python.authenticate.socketTimeout": "120s",  # how long Spark waits for Python to connect; 15s by default
    # Tasks that look for the files of a list. Spark's default is one for each file: ten times the CPU for 576 files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}
_DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tasks that read the log of a table at each commit. Delta's default is 50, for logs of a million files.
    "spark.databricks.delta.snapshotPartitions": "8",
    # Files are skipped by the first columns: batch, family, v, writer, seq, time and client.
    "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "12",
}
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A heartbeat may read an accumulator of a task that just begins: Spark 4.2 then logs an error with its traceback.
    "spark.executor.heartbeatInterval": "60s",
}

_TASKS_OF_CORE: Final = 4
"""Files are read in at least so many tasks for each core, as far as there is enough of them: then all cores end at the
same time.
"""


@contextmanager
def session(
    app: str,
    *,
    master: str | None = None,
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield a session as `open_session` returns it. One that was open before is open afterwards."""
    present = SparkSession.getActiveSession()
    spark = open_session(app, master=master, jars=jars, settings=settings)
    try:
        yield spark
    finally:
        if present is None:
            with suppress(*JAVA_ENDED):  # a signal to all processes of a job ends Java, too
                spark.stop()


def open_session(
    app: str,
    *,
    master: str | None = None,
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session, the present one if there is one. `settings` overrides Spark's of the same name; jars add up.

    Raises PipelineError if there is no Java, and JarsUnavailableError if Delta Lake cannot be had.
    """
    chosen = _SETTINGS | _DELTA_SETTINGS
    if not is_submitted():
        master = master or DEFAULT_MASTER
        os.environ["JAVA_HOME"] = str(java_home(find_java()))
        chosen["spark.master"] = master
        chosen["spark.driver.defaultJavaOptions"] = f"-D{_LOG_PROPERTY}={_log_file().as_uri()}"
        chosen["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        if is_local(master):
            chosen |= _LOCAL_SETTINGS
            chosen["spark.sql.shuffle.partitions"] = str(_cores(master))
            chosen["spark.databricks.delta.snapshotPartitions"] = "1"
            chosen["spark.sql.files.minPartitionNum"] = str(_TASKS_OF_CORE * _cores(master))
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        chosen["spark.jars"] = ",".join(map(str, (*locked_jars(DELTA), *jars)))
    else:
        _quiet_log()
    given = dict(settings or {})
    if "spark.jars" in given and "spark.jars" in chosen:
        given["spark.jars"] = f"{chosen['spark.jars']},{given['spark.jars']}"
    chosen |= given
    builder = SparkSession.builder.appName(app)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what fails is raised as well
    logging.getLogger().addFilter(_is_not_of_py4j)
    with _interrupt_held():
        spark = builder.getOrCreate()
    from_zip = f".zip{os.sep}" in __file__  # of `spark-submit --py-files`: the workers have it
    if not from_zip and (is_submitted() or not is_local(chosen["spark.master"])):
        spark.sparkContext.addPyFile(str(_code_zip()))
    return spark


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Hold an interrupt until Java runs: while it starts, Python would end and leave it alone.

    The handler stays what it was. PySpark's own would ask Java to cancel the jobs over a connection that is in use, and
    print what comes of it; the end of the session cancels them.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one has interrupts
        yield
        return
    held: list[int] = []

    def hold(number: int, _: object) -> None:
        held.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not py4j's, which tells of an interrupt there."""
    return record.module != "java_gateway"


def is_submitted() -> bool:
    """Return whether `spark-submit` has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str) -> bool:
    """Return whether the workers are threads of this process and children of it."""
    return master == "local" or master.startswith("local[")


@cache
def _log_file() -> Path:
    """Return the settings of Spark's log as a file, which the resource is not in a zip."""
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(as_file(files("pipeline") / "log4j2.properties"))


def _quiet_log() -> None:
    """Give a Java that runs already our settings of Spark's log, unless it has some of the user's."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - before the session, which logs pages of INFO
    jvm = SparkContext._jvm  # noqa: SLF001 - PySpark has no public way to Java
    assert jvm is not None  # noqa: S101 - just initialized
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if not jvm.java.lang.System.getProperty(_LOG_PROPERTY) and not loader.getResource(
        "log4j2.properties"
    ):
        # Before its first line Spark would load its own settings over ours; in silence they come first.
        jvm.org.apache.spark.deploy.SparkSubmit().initializeLogIfNecessary(False, True)
        configurator = jvm.org.apache.logging.log4j.core.config.Configurator
        configurator.reconfigure(jvm.java.net.URI(_log_file().as_uri()))


@cache
def _code_zip() -> Path:
    """Return the zip of the code, which Spark serves as long as this process runs."""
    folder = TemporaryDirectory(prefix="sluice-code-")
    atexit.register(folder.cleanup)
    code = Path(folder.name) / "sluice.zip"
    write_code_zip(code)
    return code


def _cores(master: str) -> int:
    told = master.removeprefix("local").strip("[]").partition(",")[0]
    return int(told) if told.isdigit() else os.cpu_count() or 1
