"""Secrets are read from files and variables; no error has a part of them."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from proxy.config.small_files import MAX_SECRET_BYTES, FileError, read_secret

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-8d1f6a70c2"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"pass word", "pass word"),
        (b" p\n", " p"),
        (b"p\r\n", "p"),
        ("p\u00e4ss\n".encode(), "p\u00e4ss"),
        (b"x" * MAX_SECRET_BYTES, "x" * MAX_SECRET_BYTES),
    ],
)
def test_a_line_break_at_the_end_is_ignored(content: bytes, text: str, tmp_path: Path) -> None:
    """Editors and `echo` add one. Spaces are a part of the secret."""
    file = tmp_path / "password"
    file.write_bytes(content)
    assert read_secret(str(file)).reveal() == text


def test_a_variable_has_the_secret_if_no_file_is_named(tmp_path: Path) -> None:
    """A named file has priority."""
    environ = {"SECRET": f"{CANARY}\n"}
    assert read_secret("", "SECRET", environ).reveal() == CANARY
    file = tmp_path / "password"
    file.write_text("other")
    assert read_secret(str(file), "SECRET", environ).reveal() == "other"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n", "which is empty"),
        (CANARY.encode() + b"\n\n", "several lines"),
        (CANARY.encode() + b"\0", "a NUL character"),
        (CANARY.encode() + b"\xff", f"not UTF-8 at byte {len(CANARY)}"),
        (CANARY.encode() * 4000, f"more than {MAX_SECRET_BYTES} bytes"),
    ],
)
def test_an_unusable_file_is_named_and_its_content_is_not(
    content: bytes, words: str, tmp_path: Path
) -> None:
    """The error says what is wrong with the file."""
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_secret(str(file))
    text = "".join(traceback.format_exception(caught.value))
    assert repr(str(file)) in caught.value.found
    assert words in caught.value.found
    assert CANARY not in text


@pytest.mark.parametrize(
    ("text", "words"), [(f"{CANARY}\n{CANARY}", "several lines"), (CANARY * 9000, "more than")]
)
def test_an_unusable_variable_is_named_and_its_content_is_not(text: str, words: str) -> None:
    """The rules are those of a file."""
    with pytest.raises(FileError, match=rf"SECRET, which .*{words}") as caught:
        read_secret("", "SECRET", {"SECRET": text})
    assert CANARY not in str(caught.value)
