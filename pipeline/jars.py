"""Jars of a lock file, among them Delta Lake and Spark's Kafka connector: found on this machine or downloaded.

Rules:
- A lock has one jar a line, `group:artifact:version[:classifier] sha256`. A jar is used only with the sha256 of the
  lock. Spark's own `spark.jars.packages` checks none, and asks for jars that Spark has.
- Nothing is resolved: each jar is looked for in the folder that is asked for, then in the local Maven repository, and
  only then downloaded by jgo from its default repository.
- The jars end in one flat folder, so that a class path is `folder/*`. A file lock lets several processes share it.
- Those of `NAME.lock` are kept in `sluice/NAME` below XDG_CACHE_HOME; a machine without network gets that folder as a
  copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.errors import PipelineError

_THREADS: Final = 8
_TIMEOUT_SECONDS: Final = 60

DELTA: Final = "delta"
"""The lock of the format of the tables: every job needs it."""
KAFKA: Final = "kafka"
"""The lock of Spark's Kafka connector: streams over topics need it."""


class JarsUnavailableError(PipelineError):
    """The jars of a lock can be had neither from the machine nor from the registry; says why."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Return the jar's name in the flat folder; unique because the group is in it."""
        return f"{self.group}_{self.artifact}-{self.version}{self._suffix}.jar"

    @property
    def repository_path(self) -> Path:
        """Return where any Maven repository keeps the jar."""
        name = f"{self.artifact}-{self.version}{self._suffix}.jar"
        return Path(*self.group.split("."), self.artifact, self.version, name)

    @property
    def _suffix(self) -> str:
        return f"-{self.classifier}" if self.classifier else ""


def read_lock(text: str) -> list[Jar]:
    """Return the jars of a lock's text. Raises ValueError that names a malformed line."""
    jars = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        coordinate, _, sha256 = line.partition(" ")
        parts = coordinate.split(":")
        if len(parts) not in (3, 4) or len(sha256) != 64:
            raise ValueError(f"not a line of a jar lock: {line!r}")
        group, artifact, version, *classifier = parts
        jars.append(Jar(group, artifact, version, "".join(classifier), sha256))
    return jars


def provide_jars(lock: str, folder: Path) -> list[Path]:
    """Return the jars of a lock's text, all in `folder`, which has no other jar. Raises JarsUnavailableError."""
    jars = read_lock(lock)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        wanted = {jar.file_name for jar in jars}
        for stranger in folder.glob("*.jar"):
            if stranger.name not in wanted:
                stranger.unlink()
        downloads = folder / ".downloads"
        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(lambda jar: _provide(jar, folder, downloads), jars))
        shutil.rmtree(downloads, ignore_errors=True)
    return found


def _provide(jar: Jar, folder: Path, downloads: Path) -> Path:
    target = folder / jar.file_name
    if _is(target, jar.sha256):
        return target
    maven = Path(os.environ.get("M2_REPO", Path.home() / ".m2" / "repository"))
    local = maven / jar.repository_path
    if not _is(local, jar.sha256):
        local = downloads / jar.repository_path
        local.unlink(missing_ok=True)  # a download that was broken off
        _download(jar, downloads)
        if not _is(local, jar.sha256):
            raise JarsUnavailableError(f"{local.name} has not the sha256 of the lock")
    _place(local, target)
    return target


def _download(jar: Jar, repository: Path) -> None:
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - only a first run needs it
    except ImportError as error:
        raise JarsUnavailableError(
            f"{jar.repository_path.name} is neither cached nor in the local Maven repository, and "
            "jgo, which downloads it, is not installed: pip install jgo"
        ) from error
    context = MavenContext(repo_cache=repository, timeout=_TIMEOUT_SECONDS)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    try:
        component.artifact(jar.classifier, "jar").resolve()
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
        raise JarsUnavailableError(
            f"cannot download {jar.repository_path.name}: {error}"
        ) from error


def _place(source: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _is(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def lock_of(name: str) -> str:
    """Return the text of the lock DELTA or KAFKA."""
    return files("pipeline").joinpath(f"{name}.lock").read_text("utf-8")


def locked_jars(*names: str, folder: Path | None = None) -> list[Path]:
    """Return the jars of the locks DELTA and KAFKA, in `folder` or in the cache of this user.

    Raises JarsUnavailableError with the ways out.
    """
    if folder is not None:
        return _locked_jars("".join(map(lock_of, names)), folder)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [jar for name in names for jar in _locked_jars(lock_of(name), base / "sluice" / name)]


def _locked_jars(lock: str, folder: Path) -> list[Path]:
    try:
        return provide_jars(lock, folder)
    except (JarsUnavailableError, OSError) as error:
        names = ", ".join(jar.file_name for jar in read_lock(lock))
        raise JarsUnavailableError(
            f"Spark's jars: {error}. On a machine with network run "
            f"`sluice-pipeline package FOLDER --kafka`, and copy from FOLDER/jars to {folder}: {names}"
        ) from error
