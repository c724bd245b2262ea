"""The one small file that a policy may keep: read whole, replaced in one step."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def load(path: str) -> bytes | None:
    """What was saved there; None if nothing ever was. Raises OSError for any other reason."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def save(path: str, data: bytes) -> None:
    """Write `data` beside the file, down to the disk, then put it in the file's place.

    Whoever reads sees the old content or the new one, whenever the process or the machine stops. Raises
    OSError, and then the old content stands.
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
        os.fsync(directory)  # the name, too, is on the disk before anybody is told so
    finally:
        os.close(directory)
