"""Files and folders of any file system that Spark reads (local, HDFS, S3), by their URIs; and the errors of Spark."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped] # no types
from pyspark.errors import PySparkException

from pipeline.errors import JobFailedError, PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""The errors that a job of Spark, or a call of Hadoop's FileSystem, raises."""
JAVA_ENDED: Final = (*SPARK_ERRORS, Py4JError, ConnectionError, EOFError)
"""The same, and those with which calls end when Spark's Java process has ended."""
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+)", re.MULTILINE)
_RAISED: Final = re.compile(r"^: ([\w.$]+(?::.*)?)$", re.MULTILINE)
"""So begins the exception in the text of a Py4JJavaError, on the line after the call."""
HADOOP: Final = "3.5.0"
"""The version of Hadoop that Spark 4.2 brings."""
_HINTS: Final = {
    r"Class org\.apache\.hadoop\.fs\.s3a\S* not found": f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    r"Class org\.apache\.hadoop\.fs\.azure\S* not found": f"org.apache.hadoop:hadoop-azure:{HADOOP}",
    r"Class \S*\.GoogleHadoop\S* not found": "com.google.cloud.bigdataoss:gcs-connector:VERSION",
}
"""By the class of a file system that Spark lacks: the package that has it."""


def cause_of(error: Exception) -> str:
    """Return the first cause of an error of Spark, on one line: Java's last "Caused by", else the exception itself.

    Where a setting of Spark mends it, the line names the setting.
    """
    cause = _cause(str(error)) or type(error).__name__
    for sign, package in _HINTS.items():
        if re.search(sign, cause):
            return f"{cause}. Give the option --conf spark.jars.packages={package}"
    if "OutOfMemoryError" in cause:
        return f"{cause}. Give Spark more memory, such as --conf spark.driver.memory=4g"
    if 'No FileSystem for scheme "s3"' in cause:
        return f"{cause}. Spark's scheme for S3 is s3a:"
    return cause


def _cause(text: str) -> str:
    for found in (_CAUSED_BY.findall(text)[-1:], _RAISED.findall(text)[:1]):
        if found:
            return str(found[0]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


@contextmanager
def in_one_line(job: str) -> Iterator[None]:
    """Raise an error of Spark, or of its end, as a JobFailedError that says so on one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise JobFailedError(f"{job} failed: {cause_of(error)}") from error
    except BrokenPipeError:  # a reader of standard output has left; py4j raises errors of its own
        raise
    except JAVA_ENDED as error:
        raise JobFailedError(
            f"{job} failed: Spark's Java process has ended, perhaps for want of memory. "
            "Give it more, such as --conf spark.driver.memory=4g, or the machine less to do"
        ) from error


class FileSystem:
    """The file system of `uri`, through Hadoop's own client in Spark's JVM. Raises PipelineError if there is none.

    Each call is one request to the file system; it raises Py4JJavaError with Java's IOException.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        jvm = spark._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop's FileSystem
        java = spark._jsc  # noqa: SLF001 - as above
        assert jvm is not None  # noqa: S101 - a session of a running driver has one
        self._path = jvm.org.apache.hadoop.fs.Path
        try:
            self._files = self._path(uri).getFileSystem(java.hadoopConfiguration())
        except SPARK_ERRORS as error:
            raise PipelineError(f"{uri}: {cause_of(error)}") from error

    def exists(self, uri: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._files.exists(self._path(uri)))

    def local_path(self, uri: str) -> Path | None:
        """Return the path of a URI on this machine; None on another file system."""
        is_local = self._files.getUri().getScheme() == "file"
        return Path(self._path(uri).toUri().getPath()) if is_local else None

    def matches(self, pattern: str) -> bool:
        """Return whether there is a file or folder of this URI, which may have wildcards."""
        return bool(self._files.globStatus(self._path(pattern)))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder in order; none if it does not exist."""
        if not self.exists(folder):
            return []
        return sorted(
            each.getPath().getName() for each in self._files.listStatus(self._path(folder))
        )

    def some_file(self, uri: str) -> str | None:
        """Return the name of a file in a folder or below it, or of the file itself; hidden ones do not count."""
        for each in self._files.listStatus(self._path(uri)):
            name = str(each.getPath().getName())
            if name.startswith(("_", ".")):
                continue
            found = self.some_file(each.getPath().toString()) if each.isDirectory() else name
            if found:
                return found
        return None

    def leaf_folders(self, folder: str, below: str = "") -> Iterator[str]:
        """Yield the folders that hold files, as paths relative to `folder`; hidden files do not count."""
        here = f"{folder}/{below}" if below else folder
        has_files = False
        for each in self._files.listStatus(self._path(here)):
            name = each.getPath().getName()
            if each.isDirectory():
                yield from self.leaf_folders(folder, f"{below}/{name}" if below else name)
            elif not name.startswith(("_", ".")):
                has_files = True
        if has_files and below:
            yield below

    def delete(self, uri: str) -> None:
        """Delete a file, or a folder with everything in it; nothing if it does not exist."""
        self._files.delete(self._path(uri), True)

    def rename(self, uri: str, target: str) -> None:
        """Rename a file or folder; `target` must not exist, its parents are made. Raises OSError if that fails."""
        self._files.mkdirs(self._path(target).getParent())
        if not self._files.rename(self._path(uri), self._path(target)):
            raise OSError(f"{uri}: cannot be renamed to {target}")

    def write(self, uri: str, text: str) -> None:
        """Write a small file."""
        out = self._files.create(self._path(uri), True)
        out.write(text.encode())
        out.close()

    def read(self, uri: str) -> str:
        """Return the text of a small file."""
        source = self._files.open(self._path(uri))
        try:
            return bytes(source.readAllBytes()).decode()
        finally:
            source.close()
