"""What a client has sent and nobody has read yet, as the kernel counts it."""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING

from proxy.shell.endpoint import Endpoint

if TYPE_CHECKING:
    from proxy.core.session.state import SessionState

_INT = struct.Struct("i")


def unread_bytes(session: SessionState) -> int:
    """Of this session's client (FIONREAD; 0 when it is closed). Under TLS these are encrypted bytes."""
    end = session.handle
    if not isinstance(end, Endpoint) or end.closed:
        return 0
    answer = fcntl.ioctl(end.fd, termios.FIONREAD, bytes(_INT.size))
    count: int = _INT.unpack(answer)[0]
    return count
