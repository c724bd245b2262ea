"""The place where a run writes before anything in the tables changes, and the step that makes it visible.

Rules:
- A run writes whole folders below `TABLES/_ingest/RUN/tables`. When all are written it writes the file COMMITTED, and
  then moves each folder to its place in the tables, after moving away the old one.
- A run that dies before COMMITTED has changed nothing; the next run deletes its folder.
- A run that dies after it is finished by the next run: all moves can be repeated. Until then some folders are old and
  some new, each is whole, and at most one is absent.
- One run at a time. Of two, the one that began first fails and says so.
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
_BEGUN: Final = "BEGUN"
_COMMITTED: Final = "COMMITTED"


class Staging:
    """The folder of one run. `begin` comes first, `commit` last; `discard` ends a run that failed."""

    def __init__(self, spark: SparkSession, tables: str) -> None:
        self.run = f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(4)}"
        self._tables = tables
        self._all = table_uri(tables, FOLDER)
        self._here = f"{self._all}/{self.run}"
        self._fs = FileSystem(spark, self._all)
        self._has_begun = self._must_move = False

    def begin(self) -> None:
        """Finish runs that died after COMMITTED, delete those that died before it, and make the folder of this one."""
        for run in self._fs.names(self._all):
            folder = f"{self._all}/{run}"
            if self._fs.exists(f"{folder}/{_COMMITTED}"):
                self._move(folder)
            self._fs.delete(folder)
        self._fs.write(f"{self._here}/{_BEGUN}", "")
        self._has_begun = True

    def check(self) -> None:
        """Raise PipelineError if another run has begun since this one did."""
        if self._has_begun and not self._fs.exists(f"{self._here}/{_BEGUN}"):
            raise PipelineError(
                f"{self._tables}: another ingest of these tables began meanwhile and ended this one. "
                "Run one at a time"
            )

    def uri(self, name: str) -> str:
        """Return where the run keeps something for itself."""
        return f"{self._here}/{name}"

    def table(self, name: str) -> str:
        """Return where the run writes folders of a table."""
        return f"{self._here}/tables/{name}"

    def commit(self, remove: Iterable[str] = ()) -> None:
        """Put the written folders in their place, and delete the folders `remove` (relative to the tables).

        Raises PipelineError as `check` does. After an error of the file system the next run does the rest.
        """
        self.check()
        self._must_move = True
        self._fs.write(f"{self._here}/{_COMMITTED}", "".join(f"{each}\n" for each in remove))
        self._move(self._here)
        self._must_move = False
        self.discard()

    def discard(self) -> None:
        """Delete the run's folder, unless it has been committed and must still be moved."""
        if not self._must_move:
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
