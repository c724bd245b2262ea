"""No core dump of a process of Sluice: the passwords and keys in its memory would be in it.

Every command may hold some: in plain pass-through a client's password is in a buffer, too, and so are its records.
"""

from __future__ import annotations

import resource
from contextlib import suppress


def forbid_core_dumps() -> None:
    """Keep secrets out of core dumps, for the rest of this process and its children.

    A limit of 1 byte, not 0: Linux writes no core file for either, but still starts a program of
    `kernel.core_pattern` with 0 (fs/coredump.c).
    """
    with suppress(OSError, ValueError):  # a lower hard limit is in force
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
