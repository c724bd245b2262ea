"""Small files that settings name: secrets, certificates, keys. They are read whole, and their size is bounded."""

from __future__ import annotations

import os
import stat

from proxy.shell import files


class FileError(ValueError):
    """A file, or a secret, that cannot be used. `found` names it; `expected` is what is needed instead."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected


def read_small_file(path: str, max_bytes: int, expected: str) -> bytes:
    """Return the content of a regular file, at least one byte. Raises FileError with `expected`."""
    try:
        content = files.read(path, max_bytes)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{path!r}: {words}", expected) from None
    if not content:
        raise FileError(f"{path!r}, which is empty", expected)
    return content


def is_open_to_others(path: str) -> bool:
    """Return whether users other than the file's owner and group may read it."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)  # noqa: PTH116 - one call, and the path is a text
    except (OSError, ValueError):
        return False
