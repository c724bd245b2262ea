"""Standard error as a file that never blocks and never raises.

Rules:
- `write` puts a line into a queue with two bounds, lines and bytes. A thread writes it. A line for which there is no
  room, or which the system refuses (a full disk, a pipe without a reader), is lost and counted in `lines_lost`.
- One write(2) a line, so that short lines of several processes do not mix in one pipe.
- When writing works again, one line tells how many were lost before it (`notice` makes it).
- The thread is a daemon: blocked in write(2), it does not hold the process. `finish` waits no longer than it is told.
- Everything that Python itself prints (tracebacks, warnings) comes this way too once `install` was called, and the
  buffered original stays empty, so that its flush at the end of the process cannot fail.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE_MAX_LINES: Final = 10_000
QUEUE_MAX_BYTES: Final = 1 << 20
LINE_MAX_BYTES: Final = 64 << 10
FINISH_S: Final = 1.0
"""How long the end of the process waits for the last lines."""
_STDERR: Final = 2
_LOOK_AGAIN_MS: Final = 1000


class NonBlockingStderr(io.TextIOBase):
    """See the module. `write_bytes` is write(2): it may block, raise OSError, or take only a part."""

    def __init__(self, write_bytes: Callable[[bytes], int], *, is_terminal: bool = False) -> None:
        super().__init__()
        self.lines_lost = 0
        self.notice: Callable[[int], str] = _plain_notice
        self._write_bytes = write_bytes
        self._is_terminal = is_terminal
        self._changed = threading.Condition()  # its lock is reentrant: a finalizer may write
        self._queue: deque[tuple[int, bytes]] = deque()  # with how many were lost just before it
        self._queued_bytes = 0
        self._gap = 0  # lost since the last that was queued
        self._unfinished: dict[int, str] = {}  # by thread: text without its newline yet
        self._ending = False
        self._unsaid = 0  # the thread's: lost, and no notice has been written
        self._is_torn = False  # the thread's: the last line stands there in part
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    # -- a text file -----------------------------------------------------------------------------

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute there
        """What is written."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override] # a plain attribute there
        """Nothing that cannot be encoded raises."""
        return "backslashreplace"

    def writable(self) -> bool:
        """It is."""
        return True

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._is_terminal

    def flush(self) -> None:
        """Nothing to do: the thread writes as soon as it can."""

    def write(self, text: str) -> int:
        """Queue what ends with a newline; the rest waits for its own. Returns the length."""
        if not isinstance(text, str):  # click tells text files from binary ones by this
            raise TypeError(f"found {type(text).__name__}, expected str")
        thread = threading.get_ident()
        with self._changed:
            done, newline, rest = (self._unfinished.pop(thread, "") + text).rpartition("\n")
            if newline:
                self._put(done)
            if len(rest) >= LINE_MAX_BYTES:
                self._put(rest)
            elif rest:
                self._unfinished[thread] = rest
        return len(text)

    def _put(self, text: str) -> None:
        line = text.encode(self.encoding, self.errors)[: LINE_MAX_BYTES - 1] + b"\n"
        is_full = (
            len(self._queue) >= QUEUE_MAX_LINES or self._queued_bytes + len(line) > QUEUE_MAX_BYTES
        )
        if is_full or self._ending:
            self.lines_lost += 1
            self._gap += 1
            return
        self._queue.append((self._gap, line))
        self._gap = 0
        self._queued_bytes += len(line)
        self._changed.notify()

    @property
    def unwritten(self) -> int:
        """How many lines are queued, or in the thread's hand, at most."""
        return len(self._queue) + self._thread.is_alive()

    # -- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Write what is queued, for so long at most; False: lines are left, and will be lost."""
        with self._changed:
            for rest in self._unfinished.values():
                self._put(rest)
            self._unfinished.clear()
            self._ending = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            self._deliver(*taken)

    def _take(self) -> tuple[int, bytes] | None:
        """The next line and how many were lost before it; None at the end."""
        with self._changed:
            while not self._queue:
                if self._gap:
                    gap, self._gap = self._gap, 0
                    return gap, b""
                if self._ending:
                    return None
                self._changed.wait()
            taken = self._queue.popleft()
            self._queued_bytes -= len(taken[1])
            return taken

    def _deliver(self, lost: int, line: bytes) -> None:
        self._unsaid += lost
        if self._unsaid:
            told = self.notice(self._unsaid).encode(self.encoding, self.errors)
            if self._try_write(told):
                self._unsaid = 0
        if line and (self._unsaid or not self._try_write(line)):
            self._unsaid += 1
            with self._changed:
                self.lines_lost += 1

    def _try_write(self, line: bytes) -> bool:
        left = b"\n" + line if self._is_torn else line
        while left:
            try:
                written = self._write_bytes(left)
            except OSError:
                written = 0
            if not written:
                self._is_torn |= len(left) < len(line)
                return False
            left = left[written:]
        self._is_torn = False
        return True


def install() -> None:
    """Put a sink in the place of standard error, and have it finished at the end of the process.

    Nothing is done if standard error is not the process's own any more.
    """
    if sys.stderr is not sys.__stderr__:
        return
    open_missing()
    _file.path = path_of(_STDERR)
    sink = NonBlockingStderr(partial(write_when_possible, _STDERR), is_terminal=os.isatty(_STDERR))
    sink.start()
    sys.stderr = sink
    atexit.register(sink.finish, FINISH_S)


class _File:
    """The path of standard error, where it is a file with a name."""

    path = ""


_file = _File()


def reopen() -> None:
    """After logrotate: where standard error is a file that was moved away or removed, begin it again."""
    if not _file.path:
        return
    with suppress(OSError):  # then lines go where they went
        with suppress(FileNotFoundError):
            if os.path.samestat(Path(_file.path).stat(), os.fstat(_STDERR)):
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fresh = os.open(_file.path, flags, 0o640)
        try:
            os.dup2(fresh, _STDERR)
        finally:
            os.close(fresh)


def path_of(descriptor: int) -> str:
    """The path of a regular file, as the kernel knows it; empty for anything else."""
    with suppress(OSError):
        found = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if stat.S_ISREG(found.st_mode) and os.path.samestat(path.stat(), found):
            return str(path)
    return ""


def open_missing() -> None:
    """Open /dev/null as each standard descriptor that is closed: a client's socket must not become standard error."""
    for descriptor in range(_STDERR + 1):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def write_when_possible(descriptor: int, data: bytes) -> int:
    """write(2) that waits also where another process has made the pipe non-blocking. Raises OSError."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            poller.poll(_LOOK_AGAIN_MS)


def _plain_notice(lines: int) -> str:
    return f"log_lines_lost lines={lines}\n"
