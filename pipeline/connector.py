"""The jars of Spark's Kafka connector, which Spark does not bring.

Rules:
- `connector.lock` names them with their sha256. They go to Spark by `spark.jars`: `spark.jars.packages` checks no
  sha256 and asks for jars that Spark has.
- They are kept in `sluice/connector` below XDG_CACHE_HOME; a machine without network gets that folder as a copy.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.jars import JarsUnavailableError, provide_jars, read_lock

LOCK: Final = "connector.lock"


def connector_jars(folder: Path | None = None) -> list[Path]:
    """Return the jars, in `folder` or in the cache of this user. Raises JarsUnavailableError with the ways out."""
    lock = files("pipeline").joinpath(LOCK).read_text("utf-8")
    folder = folder or _cache()
    try:
        return provide_jars(lock, folder)
    except (JarsUnavailableError, OSError) as error:
        names = ", ".join(jar.file_name for jar in read_lock(lock))
        raise JarsUnavailableError(
            f"Spark's Kafka connector: {error}. On a machine with network run "
            f"`sluice-pipeline package FOLDER --kafka`, and copy the jars to {folder}: {names}"
        ) from error


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sluice" / "connector"
