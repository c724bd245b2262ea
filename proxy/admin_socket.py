"""The admin socket that `sluice run` has unless told otherwise, and where `sluice top` and `sluice ctl` look for it.

Rules:
- The folder is private (0700) and its owner is the user that runs Sluice; a folder that is not is never used, by
  either side. The name of the socket is the bootstrap port, so that two Sluices of one user do not meet.
- It is a convenience: where it cannot be made, Sluice runs without it and says so once.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.admin.sockets import bind_unix, inode_of, unlink

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIVATE: Final = 0o700
ROOT_FOLDER: Final = Path("/run/sluice")
SUFFIX: Final = ".sock"
PROBE_S: Final = 1.0
RETRY_S: Final = 0.5
SILENT_S: Final = 2.0
"""So long the first connection may say nothing before the next one has its turn."""


class AdminSocket(NamedTuple):
    """A socket that listens."""

    path: str
    listening: socket.socket
    inode: int

    def close(self) -> None:
        """Stop listening, and take the path away if it is still ours."""
        self.listening.close()
        unlink(self.path, self.inode)


def folders(environ: Mapping[str, str]) -> list[Path]:
    """Where a socket may be, the best place first: Sluice takes the first that can be used, its tools look in all.

    One of the two may run without the variables of a login, as a service does.
    """
    found = []
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and _owner(Path(runtime)) == os.geteuid():
        found.append(Path(runtime) / "sluice")
    if os.geteuid() == 0:
        found.append(ROOT_FOLDER)
    found.append(Path(environ.get("TMPDIR") or "/tmp") / f"sluice-{os.geteuid()}")  # noqa: S108 - a private folder in it
    return found


def listen(port: int, environ: Mapping[str, str]) -> AdminSocket:
    """The socket of the Sluice whose bootstrap port this is. Raises OSError, in words, where there can be none."""
    fault: OSError | None = None
    for folder in folders(environ):
        path = str(folder / f"{port}{SUFFIX}")
        try:
            _make_private(folder)
        except OSError as error:
            fault = fault or error
            continue
        return AdminSocket(path, bind_unix(path, "admin.socket"), inode_of(path))
    raise fault or OSError(errno.ENOENT, "there is no folder for the admin socket")


async def first_caller(listening: socket.socket) -> socket.socket:
    """Return the first connection that sends a byte. A probe of `find` sends none and is closed."""
    import trio  # noqa: PLC0415 - start-up of the commands that only look for it

    listening.setblocking(False)
    while True:
        await trio.lowlevel.wait_readable(listening)
        try:
            accepted, _ = listening.accept()
        except OSError:  # it has gone, or there is no descriptor left
            await trio.sleep(RETRY_S)
            continue
        speaks = False
        try:
            accepted.setblocking(False)
            with trio.move_on_after(SILENT_S), suppress(OSError):
                await trio.lowlevel.wait_readable(accepted)
                speaks = bool(accepted.recv(1, socket.MSG_PEEK))
        finally:
            if not speaks:
                accepted.close()
        if speaks:
            return accepted


def find(environ: Mapping[str, str], port: int | None = None) -> list[str]:
    """The paths of all such sockets on which a Sluice of this user listens now; `port`: only of that one."""
    name = f"*{SUFFIX}" if port is None else f"{port}{SUFFIX}"
    return [
        str(path)
        for folder in folders(environ)
        if _is_private(folder)
        for path in sorted(folder.glob(name))
        if _is_alive(path)
    ]


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(PRIVATE)
    except FileExistsError:
        if not _is_private(folder):
            words = f"{folder} is not a folder that only its user may open (mode 0700)"
            raise OSError(errno.EACCES, words) from None
    except OSError as error:
        raise OSError(error.errno, f"{folder} cannot be made: {error.strerror}") from error


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not stat.S_IMODE(found.st_mode) & ~PRIVATE
    )


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
