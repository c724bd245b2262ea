"""The sockets that the admin server listens on, bound before the proxy says that it is ready.

Rules:
- A Unix socket has mode 0600 from its creation. A dead socket is replaced, one with a listener is not; a file that is
  not a socket is never touched.
- Failures are OSErrors whose message names the setting and the address.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress

BACKLOG = 64
OURS_ALONE = 0o600


def bind_tcp(where: str, name: str) -> socket.socket:
    """Return a socket that listens on HOST:PORT. Raises OSError, whose message has `name`, the setting."""
    host, _, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        words = f"cannot listen on {name} {where}: {error.strerror}"
        raise OSError(error.errno, words) from error
    return listening


def bind_unix(path: str, name: str) -> socket.socket:
    """Return a Unix socket that listens on this path. Raises OSError, whose message has `name`, the setting."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        _clear(path)
        # Linux gives the file the mode of the socket, so it never has another one.
        os.fchmod(listening.fileno(), OURS_ALONE)
        listening.bind(path)
        os.chmod(path, OURS_ALONE)  # noqa: PTH101 - other systems
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        words = f"cannot listen on {name} {path}: {error.strerror or error}"
        raise OSError(error.errno or errno.EINVAL, words) from error
    return listening


def inode_of(path: str) -> int:
    """Return the inode by which `unlink` identifies a socket."""
    return os.lstat(path).st_ino


def unlink(path: str, inode: int) -> None:
    """Remove the path if it is still that of the socket."""
    with suppress(OSError):
        if inode_of(path) == inode:
            os.unlink(path)  # noqa: PTH108 - beside bind


def _clear(path: str) -> None:
    """Remove a dead socket. Raises OSError if the path is in use."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "the file is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)  # noqa: PTH108 - beside bind
            return
    raise OSError(errno.EADDRINUSE, "another process listens there")
