"""A disk that stops answering: fsync(2) of a process waits until the test lets it return.

The process is a real one; only its `os.fsync` takes a lock first, as on a network file system whose server is away.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SHIM: Final = """
import fcntl, os

_fsync = os.fsync

def fsync(descriptor):
    with open({path!r}) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    _fsync(descriptor)

os.fsync = fsync
"""


class StuckDisk:
    """The disk of a process that is started with `variables`; it works until it is `stuck`."""

    def __init__(self, directory: Path) -> None:
        folder = directory / "stuck_disk"
        folder.mkdir()
        self._lock = folder / "lock"
        self._lock.touch()
        (folder / "sitecustomize.py").write_text(_SHIM.format(path=str(self._lock)))
        before = os.environ.get("PYTHONPATH", "")
        self.variables = {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), before)))}

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """No fsync returns until this is left."""
        with self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
