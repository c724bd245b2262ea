"""The files of policies: state, which is replaced atomically, and files that others write; both are read whole.

Code of a policy is only read if no other user may change it, because it would run with the rights of Sluice:
- Every link on the way, every folder and the end are judged: who may change one of them chooses the code.
- Each must belong to root or to the user of this process, and no other user may write to it. A folder with the sticky
  bit (/tmp) may stand on the way: its entries are their owners', and are judged themselves.
- A folder of root that is mounted read-only here may have any mode: the kubelet makes the folder of a ConfigMap with
  0777. All below it must be root's then, because another container may have the same folder mounted for writing.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import EFBIG, EINVAL
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISVTX, S_IWOTH
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = 0
MAX_LINKS: Final = 40
"""As in the kernel."""


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


def is_read_only(place: Path) -> bool:
    """Return whether no process that sees this mount may write to it."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def why_untrusted(
    path: str, user: int | None = None, is_fixed: Callable[[Path], bool] = is_read_only
) -> str:
    """Return why the code that this path leads to is another user's as well; "" if it is not. Raises OSError.

    `user` is that of the process; `is_fixed` tells whether a folder is mounted read-only.
    """
    trusted = {ROOT, os.geteuid() if user is None else user}
    places = list(_places(path))
    for place in places:
        said = place.lstat()
        if said.st_uid not in trusted:
            owners = " or ".join(f"{each}" for each in sorted(trusted))
            return f"{place} belongs to user {said.st_uid}, expected {owners}"
        if S_ISLNK(said.st_mode) or not said.st_mode & S_IWOTH:
            continue
        if S_ISDIR(said.st_mode) and said.st_mode & S_ISVTX and place != places[-1]:
            continue
        if said.st_uid != ROOT or not is_fixed(place):
            return f"{place} may be written by any user (o+w)"
        trusted = {ROOT}
    return ""


def _places(path: str) -> Iterator[Path]:
    """Yield each folder and link on the way, and the end. Raises OSError."""
    here, links = Path("/"), 0
    left = list(reversed(Path(path).absolute().parts[1:]))
    yield here
    while left:
        part = left.pop()
        if part == "..":
            here = here.parent
            continue
        place = here / part
        yield place
        if not place.is_symlink():
            here = place
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"{path} has too many links")
        target = place.readlink()
        if target.is_absolute():
            here = Path("/")
            left.extend(reversed(target.parts[1:]))
        else:
            left.extend(reversed(target.parts))
