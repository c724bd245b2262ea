"""Standard error as a file that never blocks and never raises.

Rules:
- `write` puts a line into a queue that is bounded in lines and bytes. A thread writes it. A line that finds no room, or
  that the system refuses (a full disk, a pipe without a reader), is lost and counted in `lines_lost`.
- One write(2) per line, so that short lines of several processes do not mix in one pipe.
- When writing works again, a line made by `notice` has the number of lines lost before it.
- The thread is a daemon, so it does not keep the process alive while it is blocked in write(2).
- After `install` all that Python prints (tracebacks, warnings) goes through it. The original buffered file stays empty,
  so its flush at the end of the process cannot fail.
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

MAX_QUEUE_LINES: Final = 10_000
MAX_QUEUE_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 64 << 10
FINISH_S: Final = 1.0
"""How long the end of the process waits for the last lines."""
_STDERR: Final = 2
_POLL_MS: Final = 1000


class NonBlockingWriter(io.TextIOBase):
    """A text file. `write_bytes` is write(2): it may block, raise OSError, or write only a part."""

    def __init__(self, write_bytes: Callable[[bytes], int], *, is_terminal: bool = False) -> None:
        super().__init__()
        self.lines_lost = 0
        self.notice: Callable[[int], str] = _plain_notice
        self._write_bytes = write_bytes
        self._is_terminal = is_terminal
        self._changed = threading.Condition()  # its lock is reentrant: a finalizer may write
        self._queue: deque[tuple[int, bytes]] = deque()  # with the number of lines lost before each
        self._queued_bytes = 0
        self._gap = 0  # lines lost since the last that was queued
        self._unfinished: dict[int, str] = {}  # by thread: text whose newline has not come yet
        self._ending = False
        self._unreported = 0  # the thread's: lines lost without a notice so far
        self._is_torn = False  # the thread's: the last line was written in part
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    # -- a text file -----------------------------------------------------------------------------

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute there
        """Return the encoding: UTF-8."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override] # a plain attribute there
        """Return the error handler: characters that cannot be encoded are escaped."""
        return "backslashreplace"

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the original standard error is a terminal."""
        return self._is_terminal

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def write(self, text: str) -> int:
        """Queue whole lines and keep the rest until its newline comes; return the length. Raises TypeError."""
        if not isinstance(text, str):  # click tells text files from binary ones by this
            raise TypeError(f"found {type(text).__name__}, expected str")
        thread = threading.get_ident()
        with self._changed:
            done, newline, rest = (self._unfinished.pop(thread, "") + text).rpartition("\n")
            if newline:
                self._put(done)
            if len(rest) >= MAX_LINE_BYTES:
                self._put(rest)
            elif rest:
                self._unfinished[thread] = rest
        return len(text)

    def _put(self, text: str) -> None:
        line = text.encode(self.encoding, self.errors)[: MAX_LINE_BYTES - 1] + b"\n"
        is_full = (
            len(self._queue) >= MAX_QUEUE_LINES or self._queued_bytes + len(line) > MAX_QUEUE_BYTES
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
        """Return how many lines are not written yet, at most."""
        return len(self._queue) + self._thread.is_alive()

    # -- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Write the queued lines for at most `timeout_s`; return False if lines are left and will be lost."""
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
        """Return the next line and how many were lost before it; None at the end."""
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
        self._unreported += lost
        if self._unreported:
            told = self.notice(self._unreported).encode(self.encoding, self.errors)
            if self._try_write(told):
                self._unreported = 0
        if line and (self._unreported or not self._try_write(line)):
            self._unreported += 1
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
    """Replace sys.stderr, and finish it at the end of the process.

    Does nothing if sys.stderr was already replaced, by this or by other code.
    """
    if sys.stderr is not sys.__stderr__:
        return
    open_missing()
    _file.path = path_of(_STDERR)
    file = NonBlockingWriter(partial(write_when_possible, _STDERR), is_terminal=os.isatty(_STDERR))
    file.start()
    sys.stderr = file
    atexit.register(file.finish, FINISH_S)


class _StderrFile:
    """The path of standard error, if it is a file with a name."""

    path = ""


_file = _StderrFile()


def reopen() -> None:
    """Open the file of standard error again if it was moved or removed, for example by logrotate."""
    if not _file.path:
        return
    with suppress(OSError):  # lines still go to the old file
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
    """Return the path of a regular file; empty for any other descriptor."""
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
    """Call write(2), and wait if another process made the pipe non-blocking. Raises OSError."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            poller.poll(_POLL_MS)


def _plain_notice(lines: int) -> str:
    return f"log_lines_lost lines={lines}\n"
