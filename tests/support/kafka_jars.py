"""The jars of a real Apache Kafka, exactly those of a checked-in lock file.

A lock has one jar a line, `group:artifact:version[:classifier] sha256`. Nothing is resolved: each line is looked for
in the checkout's own cache, then in the local Maven repository, and only then downloaded by jgo from its default
repository. A jar from any source counts only when its sha256 is the lock's. The jars end in one flat folder, so
that a class path is `folder/*`. A file lock lets several runs on one machine share the cache.
"""

import fcntl
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "kafka"
KAFKA_VERSION = "4.3.1"
KAFKA_LOCK = Path(__file__).with_name("locks") / f"kafka-{KAFKA_VERSION}.lock"
_THREADS = 8


class JarsUnavailableError(Exception):
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
        """The jar's name in the flat folder; unique because the group is in it."""
        return f"{self.group}_{self.artifact}-{self.version}{self._suffix}.jar"

    @property
    def repository_path(self) -> Path:
        """Where any Maven repository keeps the jar."""
        name = f"{self.artifact}-{self.version}{self._suffix}.jar"
        return Path(*self.group.split("."), self.artifact, self.version, name)

    @property
    def _suffix(self) -> str:
        return f"-{self.classifier}" if self.classifier else ""


def read_lock(text: str) -> list[Jar]:
    """The jars of a lock's text; ValueError names a malformed line."""
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


def kafka_jars(lock: Path = KAFKA_LOCK) -> Path:
    """A folder with every jar of `lock` and no other; raises JarsUnavailableError."""
    jars = read_lock(lock.read_text())
    folder = CACHE / lock.stem
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        wanted = {jar.file_name for jar in jars}
        for stranger in folder.glob("*.jar"):
            if stranger.name not in wanted:
                stranger.unlink()
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda jar: _provide(jar, folder, CACHE / "repository"), jars))
        shutil.rmtree(CACHE / "repository", ignore_errors=True)
    return folder


def _provide(jar: Jar, folder: Path, repository: Path) -> None:
    target = folder / jar.file_name
    if _is(target, jar.sha256):
        return
    local = (
        Path(os.environ.get("M2_REPO", Path.home() / ".m2" / "repository")) / jar.repository_path
    )
    if _is(local, jar.sha256):
        _place(local, target)
        return
    downloaded = repository / jar.repository_path
    downloaded.unlink(missing_ok=True)  # a download that was broken off
    _download(jar, repository)
    if not _is(downloaded, jar.sha256):
        raise JarsUnavailableError(f"{jar.repository_path.name} has not the sha256 of the lock")
    _place(downloaded, target)


def _download(jar: Jar, repository: Path) -> None:
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - only a first run needs it, and CI's own image may not
    except ImportError as error:
        raise JarsUnavailableError("jgo is not installed (requirements/test.txt)") from error
    context = MavenContext(repo_cache=repository, timeout=60)
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
