"""Small files that settings name: what can be read, and the words for what cannot."""

import os
from pathlib import Path

import pytest

from proxy.config.small_files import FileError, is_open_to_others, read_small_file


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
