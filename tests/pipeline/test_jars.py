"""Jars of a lock: the lock is read strictly, and no jar with another sha256 is used."""

import hashlib
import sys
from pathlib import Path

import pytest

from pipeline.jars import Jar, JarsUnavailableError, provide_jars, read_lock
from tests.support.kafka.kafka_jars import LOCKS

CONTENT = b"a jar"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
LOCK = f"org.example:thing:1.0 {SHA256}\n"


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the local Maven repository would keep the jar; nothing can be downloaded."""
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    place = tmp_path / "m2" / "org" / "example" / "thing" / "1.0" / "thing-1.0.jar"
    place.parent.mkdir(parents=True)
    return place


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("kafka-*.lock")), ids=lambda lock: lock.stem)
def test_the_checked_in_locks_of_kafka_are_whole(lock: Path) -> None:
    """Every line is understood, no jar is there twice, and broker and tools are of the version in the name."""
    jars = read_lock(lock.read_text())
    assert len({jar.file_name for jar in jars}) == len(jars)
    ours = {jar.artifact: jar.version for jar in jars if jar.group == "org.apache.kafka"}
    assert {"kafka_2.13", "kafka-tools", "kafka-clients"} <= ours.keys()
    assert set(ours.values()) == {lock.stem.removeprefix("kafka-")}


def test_a_classifier_is_part_of_the_name() -> None:
    """`group:artifact:version:classifier` names another file than the plain jar."""
    (jar,) = read_lock(f"# comment\n\norg.example:thing:1.0:test {'0' * 64}\n")
    assert jar == Jar("org.example", "thing", "1.0", "test", "0" * 64)
    assert jar.repository_path.as_posix() == "org/example/thing/1.0/thing-1.0-test.jar"


@pytest.mark.parametrize("line", ["org.example:thing 00", f"org.example:thing:1 {'0' * 63}", "x"])
def test_a_malformed_line_is_named(line: str) -> None:
    """A lock that cannot be trusted is not half used."""
    with pytest.raises(ValueError, match="not a line"):
        read_lock(line)


def test_a_jar_of_the_local_repository_is_taken_and_then_kept(maven: Path, tmp_path: Path) -> None:
    """The folder has that jar only, and needs the repository no more."""
    maven.write_bytes(CONTENT)
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "old.jar").write_bytes(b"of an earlier lock")
    (found,) = provide_jars(LOCK, folder)
    maven.unlink()

    assert found.read_bytes() == CONTENT
    assert provide_jars(LOCK, folder) == list(folder.glob("*.jar")) == [found]


def test_a_jar_with_another_sha256_is_not_used(maven: Path, tmp_path: Path) -> None:
    """Neither that of the repository nor one in the folder: without jgo the error says what to install."""
    maven.write_bytes(b"a changed jar")
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / read_lock(LOCK)[0].file_name).write_bytes(b"a broken download")

    with pytest.raises(JarsUnavailableError, match=r"thing-1.0.jar is neither .*pip install jgo"):
        provide_jars(LOCK, folder)
