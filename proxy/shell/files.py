"""The file in which a policy keeps its state: read whole, replaced atomically."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def load(path: str) -> bytes | None:
    """Return the content of the file; None if there is no such file. Raises OSError for any other reason."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def save(path: str, data: bytes) -> None:
    """Write `data` to a new file, flush it to the disk, then rename it to `path`.

    A reader sees the old or the new content, even if the process or the machine stops in between. Raises OSError; the
    old content then remains.
    """
    target = Path(path)
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except OSError:
            with suppress(OSError):
                Path(file.name).unlink()
            raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename is on the disk before the caller is told
    finally:
        os.close(directory)
