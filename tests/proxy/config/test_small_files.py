"""Small files that settings name: what can be read, and the words for what cannot."""

import os
from pathlib import Path

import pytest

from proxy.config import users_file
from proxy.config.small_files import FileError, is_open_to_others, read_file, read_small_file
from proxy.config.users_file import load_users
from tests.support.shell.sasl_service import credentials


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    """One byte more is refused, and so is an empty file."""
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert read_small_file(str(file), 3, "a file") == b"abc"
    with pytest.raises(FileError) as caught:
        read_small_file(str(file), 2, "a small file")
    assert caught.value.found == f"{str(file)!r}: more than 2 bytes"
    assert caught.value.expected == "a small file"
    file.write_bytes(b"")
    with pytest.raises(FileError, match="which is empty"):
        read_small_file(str(file), 3, "a file")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A FIFO would block, a folder has no content, and a NUL character is in no path."""
    os.mkfifo(tmp_path / "fifo")
    for path, words in (
        (str(tmp_path / "fifo"), "not a regular file"),
        (str(tmp_path), "Is a directory|not a regular file"),
        (str(tmp_path / "missing"), "No such file"),
        ("a\0b", "null"),
    ):
        with pytest.raises(FileError, match=words):
            read_small_file(path, 9, "a file")


def test_a_file_that_every_user_may_read_is_recognised(tmp_path: Path) -> None:
    """The modes of owner and group do not matter; a missing file is open to none."""
    file = tmp_path / "password"
    assert not is_open_to_others(str(file))
    file.touch()
    for mode, is_open in ((0o644, True), (0o604, True), (0o640, False), (0o400, False)):
        file.chmod(mode)
        assert is_open_to_others(str(file)) is is_open


def test_the_users_of_a_file_are_loaded(tmp_path: Path) -> None:
    """In its order."""
    lines = [f"{name} {credential}" for name, credential in credentials()]
    (tmp_path / "users").write_text("# two\n" + "\n".join(lines))
    assert list(load_users(str(tmp_path / "users"))) == ["alice", "bob"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"# ok\nalice secret", "line 2: expected NAME MECHANISM="),
        (b"# \xff", "which is not UTF-8 text"),
        (b"#" * 2_000, "more than 1000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str
) -> None:
    """The error names the file and says what is expected, and has nothing of its content."""
    monkeypatch.setattr(users_file, "MAX_BYTES", 1_000)
    path = tmp_path / "users"
    path.write_bytes(content)
    with pytest.raises(FileError, match=why) as refused:
        load_users(str(path))
    assert str(path) in refused.value.found
    assert "secret" not in refused.value.found
    assert "sluice users add" in refused.value.expected


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    """A missing file and a folder are reported, not raised."""
    for place in (tmp_path / "none.yaml", tmp_path):
        _, _, (problem,) = read_file(place)
        assert problem.origin == str(place)
        assert problem.found.startswith("the file cannot be read: ")


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A file of that size is not a configuration."""
    file = tmp_path / "s.yaml"
    with file.open("wb") as opened:
        opened.truncate(1 << 34)
    _, _, (problem,) = read_file(file)
    assert "expected at most 16777216 bytes" in str(problem)
