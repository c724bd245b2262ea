"""The default admin socket of `sluice run`, and how `sluice top` and `sluice ctl` find it.

Rules:
- Its folder is private (0700) and owned by the user that runs Sluice; neither side uses any other folder. The name of
  the socket is the bootstrap port, so two Sluices of one user have different sockets.
- If it cannot be created, Sluice runs without it and logs that once.
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
"""How long a connection may be silent before the next one is accepted."""


class AdminSocket(NamedTuple):
    """A listening socket and its path."""

    path: str
    listening: socket.socket
    inode: int

    def close(self) -> None:
        """Stop listening, and remove the path if it is still this socket's."""
        self.listening.close()
        unlink(self.path, self.inode)


def folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders for sockets, the best first: Sluice uses the first that it can, its tools look in all.

    Either of them may run without the variables of a login, for example as a service.
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
    """Return the listening socket of the Sluice with this bootstrap port. Raises OSError if no folder can be used."""
    fault: OSError | None = None
    for folder in folders(environ):
        path = str(folder / f"{port}{SUFFIX}")
        try:
            _make_private(folder)
        except OSError as error:
            fault = fault or error
            continue
        return AdminSocket(path, bind_unix(path, "admin.socket"), inode_of(path))
    if fault is None:
        fault = OSError(errno.ENOENT, "there is no folder for the admin socket")
    raise fault


async def first_caller(listening: socket.socket) -> socket.socket:
    """Return the first connection that sends a byte. A probe of `find` sends none and is closed."""
    import trio  # noqa: PLC0415 - start-up of the commands that only look for it

    listening.setblocking(False)
    while True:
        await trio.lowlevel.wait_readable(listening)
        try:
            accepted, _ = listening.accept()
        except OSError:  # it has disconnected, or no descriptor is left
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
    """Return the paths of the sockets on which Sluices of this user listen now; with `port` only that of one."""
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
            words = f"{folder} is not a private folder of this user (mode 0700)"
            raise OSError(errno.EACCES, words) from None
    except OSError as error:
        raise OSError(error.errno, f"{folder} cannot be created: {error.strerror}") from error


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
