"""The place where a run writes before anything in the tables changes, and the step that makes it visible.

Rules:
- A run writes whole folders below `TABLES/_ingest/RUN/tables`. When all are written it writes the file COMMITTED, and
  then moves each folder to its place in the tables, after moving away the old one.
- A run that dies before COMMITTED has changed nothing; the next run deletes what it left.
- A run that dies after it is finished by the next run: all moves can be repeated. Until then some folders are old and
  some new, and each is whole; at most one is absent.
- Two runs at once: the one that commits second finds the other's commit, and fails.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem
from pipeline.tables import table_uri

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

FOLDER: Final = "_ingest"
_COMMITTED: Final = "COMMITTED"
_FILES: Final = "files"


class Staging:
    """The folder of one run. `finish_earlier` comes first, `commit` last; `discard` ends a run that failed."""

    def __init__(self, spark: SparkSession, tables: str) -> None:
        self.run = f"{int(time.time() * 1000):013d}-{secrets.token_hex(4)}"
        self._tables = tables
        self._all = table_uri(tables, FOLDER)
        self._here = f"{self._all}/{self.run}"
        self._fs = FileSystem(spark, self._all)
        self._runs: list[str] = []

    def finish_earlier(self) -> None:
        """Finish runs that died after COMMITTED and delete those that died before it."""
        for run in self._fs.names(self._all):
            folder = f"{self._all}/{run}"
            if self._fs.exists(f"{folder}/{_COMMITTED}"):
                self._move(folder)
            self._fs.delete(folder)
        self._runs = self._fs.names(table_uri(self._tables, _FILES))

    def uri(self, name: str) -> str:
        """Return where the run keeps something for itself."""
        return f"{self._here}/{name}"

    def table(self, name: str) -> str:
        """Return where the run writes folders of a table."""
        return f"{self._here}/tables/{name}"

    def commit(self, remove: Iterable[str] = ()) -> None:
        """Put the written folders in their place, and delete the folders `remove` (relative to the tables).

        Raises PipelineError if another run has committed since this one began.
        """
        if self._fs.names(table_uri(self._tables, _FILES)) != self._runs:
            self.discard()
            raise PipelineError(
                f"{self._tables}: another ingest wrote to these tables meanwhile. Run it again"
            )
        self._fs.write(f"{self._here}/{_COMMITTED}", "".join(f"{each}\n" for each in remove))
        self._move(self._here)
        self.discard()

    def discard(self) -> None:
        """Delete the run's folder."""
        self._fs.delete(self._here)

    def _move(self, folder: str) -> None:
        written = f"{folder}/tables"
        if self._fs.exists(written):
            for leaf in list(self._fs.leaf_folders(written)):
                self._replace(f"{self._tables}/{leaf}", f"{folder}/old/{leaf}")
                self._fs.rename(f"{written}/{leaf}", f"{self._tables}/{leaf}")
        for leaf in self._fs.read(f"{folder}/{_COMMITTED}").splitlines():
            self._replace(f"{self._tables}/{leaf}", f"{folder}/old/{leaf}")

    def _replace(self, target: str, old: str) -> None:
        if self._fs.exists(target):
            self._fs.delete(old)
            self._fs.rename(target, old)
