"""The files of policies: state, which is replaced atomically, and files that others write; both are read whole."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import EFBIG, EINVAL
from pathlib import Path

from proxy.shell.trusted_paths import why_untrusted as why_untrusted  # noqa: PLC0414 - a part of these


def load(path: str) -> bytes | None:
    """Return the content of the file; None if there is no such file. Raises OSError for any other reason."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def read(path: str, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises OSError if it cannot be read or has more than `max_bytes`, ValueError for a text that is no path.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no wait at a FIFO
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, "not a regular file", path)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(EFBIG, f"more than {max_bytes} bytes", path)
    return content


def save(path: str, data: bytes, *, keeps_access: bool = False) -> None:
    """Write `data` to a new file, flush it to the disk, then rename it to `path`. Its mode is 0600.

    A reader sees the old or the new content, even if the process or the machine stops in between. Raises OSError; the
    old content then remains.

    `keeps_access`: the new file has the owner and the group of the old one, and the group may read it as before.
    """
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - start-up of commands that only read

    target = Path(path)
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            if keeps_access and target.exists():
                old = target.stat()
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), 0o600 | old.st_mode & 0o040)
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
