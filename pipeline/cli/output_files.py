"""Local files that a command writes: whole or not at all.

Rules:
- Whether a file can be written is found out before the work, which may take an hour, and leaves nothing behind.
- The text goes to a hidden file beside it, which then takes its name: a run that fails leaves the file as it was.
- What is no regular file, such as a terminal or a pipe, is written as it is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from pipeline.errors import JobFailedError, PipelineError

if TYPE_CHECKING:
    from pathlib import Path


def check_output(file: Path) -> None:
    """Find out whether the file can be written; its folder is made. Raises PipelineError."""
    if _is_special(file):
        return
    if file.is_dir():
        raise PipelineError(f"{file} is a folder; expected a file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(file)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise PipelineError(f"{file} cannot be written: {error.strerror}") from error


def write_output(file: Path, text: str) -> None:
    """Write the file whole. Raises JobFailedError."""
    try:
        if _is_special(file):
            file.write_text(text, "utf-8")
            return
        partial = _partial(file)
        try:
            partial.write_text(text, "utf-8")
            partial.replace(file.resolve())
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise JobFailedError(f"{file} cannot be written: {error.strerror}") from error


def _is_special(file: Path) -> bool:
    return file.exists() and not file.is_file() and not file.is_dir()


def _partial(file: Path) -> Path:
    """Return the hidden file, beside the one that a link leads to: a file is renamed in its own file system only."""
    target = file.resolve()
    return target.with_name(f".{target.name}.{os.getpid()}")
