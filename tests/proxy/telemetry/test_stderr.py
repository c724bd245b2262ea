"""Standard error as a file that never blocks and never raises."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry import stderr
from proxy.telemetry.stderr import (
    MAX_LINE_BYTES,
    MAX_QUEUE_BYTES,
    MAX_QUEUE_LINES,
    NonBlockingStderr,
)


class Pipe:
    """What write(2) writes to: `fault` is raised, `part` is how many bytes are taken at most, `held` blocks."""

    def __init__(self) -> None:
        self.data = b""
        self.fault: OSError | None = None
        self.part = 1 << 30
        self.is_open = threading.Event()
        self.is_open.set()

    def write(self, data: bytes) -> int:
        self.is_open.wait()
        if self.fault is not None:
            raise self.fault
        taken = data[: self.part]
        self.data += taken
        return len(taken)

    def lines(self) -> list[str]:
        return self.data.decode().splitlines()


@pytest.fixture
def pipe():
    made = Pipe()
    yield made
    made.is_open.set()


def deliver(log: NonBlockingStderr) -> None:
    """What the thread does until it would wait; without a thread, so that the order is known."""
    while log._queue or log._gap:
        log._deliver(*log._take())


def test_lines_come_out_in_order_and_one_write_each(pipe):
    """By a thread of its own; the end waits for it."""
    log = NonBlockingStderr(pipe.write)
    log.start()
    for number in range(1000):
        log.write(f"line {number}\n")
    assert log.finish(10)
    assert pipe.lines() == [f"line {number}" for number in range(1000)]
    assert log.lines_lost == 0


def test_text_without_a_newline_waits_for_it_and_threads_do_not_mix(pipe):
    """Python prints a traceback in many pieces."""
    log = NonBlockingStderr(pipe.write)
    log.write("Trace")
    other = threading.Thread(target=lambda: print("other", "thread", file=log))
    other.start()
    other.join()
    print("back", 1, file=log)
    log.write("the last word")
    log.start()
    assert log.finish(10)
    assert pipe.lines() == ["other thread", "Traceback 1", "the last word"]


def test_a_pipe_that_is_not_read_holds_up_no_writer_and_what_is_kept_is_bounded(pipe):
    """What does not fit is counted; once somebody reads, one line says how many are missing, and where."""
    pipe.is_open.clear()
    log = NonBlockingStderr(pipe.write)
    log.start()
    line = "x" * 99
    for _ in range(3 * MAX_QUEUE_LINES):
        log.write(line + "\n")
    assert len(log._queue) <= MAX_QUEUE_LINES
    assert log._queued_bytes <= MAX_QUEUE_BYTES
    lost = log.lines_lost
    assert lost >= 2 * MAX_QUEUE_LINES - 1
    pipe.is_open.set()
    assert log.finish(10)
    assert log.lines_lost == lost
    assert pipe.lines().count(line) == 3 * MAX_QUEUE_LINES - lost
    assert pipe.lines()[-1] == f"log_lines_lost lines={lost}"


def test_lines_of_any_length_are_bounded_in_bytes_too(pipe):
    """A few long lines take no more memory than many short ones; each is cut."""
    log = NonBlockingStderr(pipe.write)
    for _ in range(100):
        log.write("y" * (3 * MAX_LINE_BYTES) + "\n")
    assert log._queued_bytes <= MAX_QUEUE_BYTES
    assert log.lines_lost == 100 - len(log._queue)
    assert all(len(line) <= MAX_LINE_BYTES for _, line in log._queue)
    for _ in range(100):
        log.write("z" * MAX_LINE_BYTES)  # never a newline
    assert sum(map(len, log._unfinished.values())) <= MAX_LINE_BYTES


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO])
def test_what_cannot_be_written_is_counted_and_told_once_it_can_be(pipe, number):
    """Nothing is raised; the line that tells comes before the first that is written again."""
    log = NonBlockingStderr(pipe.write)
    pipe.fault = OSError(number, "no")
    for each in range(7):
        log.write(f"{each}\n")
        deliver(log)
    assert log.lines_lost == 7
    pipe.fault = None
    log.write("again\n")
    log.write("and again\n")
    deliver(log)
    assert pipe.lines() == ["log_lines_lost lines=7", "again", "and again"]
    assert log.lines_lost == 7


def test_a_line_that_was_written_in_part_does_not_swallow_the_next(pipe):
    """A disk fills up in the middle of a line."""
    log = NonBlockingStderr(pipe.write)
    pipe.part = 3

    def full_after_the_first(data: bytes) -> int:
        if pipe.data:
            raise OSError(errno.ENOSPC, "no")
        return Pipe.write(pipe, data)

    log._write_bytes = full_after_the_first
    log.write("torn line\n")
    deliver(log)
    log._write_bytes = pipe.write  # three bytes at a time
    log.write("whole\n")
    deliver(log)
    assert pipe.lines() == ["tor", "log_lines_lost lines=1", "whole"]


@given(st.lists(st.sampled_from(["line", "deliver", "break", "mend", "fill"]), max_size=60))
def test_every_line_is_written_or_counted_as_lost_and_told(steps):
    """Whatever comes in which order: lines written + lines lost = lines; what was told adds up to what was lost."""
    pipe = Pipe()
    log = NonBlockingStderr(pipe.write)
    put = 0
    for step in steps:
        if step == "line":
            log.write("a line\n")
            put += 1
        elif step == "fill":
            for _ in range(MAX_QUEUE_BYTES // MAX_LINE_BYTES + 3):
                log.write("w" * MAX_LINE_BYTES + "\n")
                put += 1
        elif step == "deliver":
            deliver(log)
        else:
            pipe.fault = OSError(errno.ENOSPC, "no") if step == "break" else None
    pipe.fault = None
    log.write("the last\n")
    deliver(log)
    told = [int(line.partition("=")[2]) for line in pipe.lines() if line.startswith("log_lines")]
    assert sum(told) == log.lines_lost
    assert len(pipe.lines()) - len(told) + log.lines_lost == put + 1


def test_the_end_does_not_wait_for_a_pipe_that_is_not_read(pipe):
    """It says that lines are left, and takes no more."""
    pipe.is_open.clear()
    log = NonBlockingStderr(pipe.write)
    log.start()
    log.write("never\n")
    assert not log.finish(0.01)
    log.write("after the end\n")
    assert log.lines_lost == 1


def test_it_is_a_text_file_for_whoever_prints(pipe):
    """What cannot be encoded is escaped; click and print take it for what it is."""
    log = NonBlockingStderr(pipe.write, is_terminal=True)
    click.echo("zwölf \udcff", file=log)
    print("x", file=log, flush=True)
    log.start()
    assert log.finish(10)
    assert pipe.lines() == ["zwölf \\udcff", "x"]
    assert log.isatty()
    assert log.writable()
    with pytest.raises(TypeError, match="bytes"):
        log.write(b"bytes")


def test_a_pipe_that_another_process_made_non_blocking_is_waited_for():
    """EAGAIN is not a loss."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = b"x" * 100_000  # more than a pipe takes
    log = NonBlockingStderr(lambda part: stderr.write_when_possible(writer, part))
    log.start()
    for _ in range(8):
        log.write("y" * 50_000 + "\n")
    read = 0
    while read < 8 * 50_001:
        read += len(os.read(reader, len(data)))
    assert log.finish(10)
    assert (read, log.lines_lost) == (8 * 50_001, 0)
    os.close(reader)
    os.close(writer)


def test_nothing_is_installed_over_a_standard_error_that_is_somebody_elses(monkeypatch):
    """A test's, or an embedding program's."""
    theirs = io.StringIO()
    monkeypatch.setattr(sys, "stderr", theirs)
    stderr.install()
    assert sys.stderr is theirs


def installed(code: str, **streams) -> subprocess.CompletedProcess:
    head = "import sys\nfrom proxy.telemetry import stderr\nstderr.install()\n"
    return subprocess.run(
        [sys.executable, "-c", head + code],
        timeout=30,
        check=False,
        cwd=Path.cwd(),
        **streams,
    )


def test_a_traceback_that_ends_the_process_still_comes_out():
    """It is the last thing that is written, and the exit code is Python's."""
    ended = installed("print('now', file=sys.stderr)\n1 / 0", stderr=subprocess.PIPE)
    assert ended.returncode == 1
    lines = ended.stderr.decode().splitlines()
    assert lines[:2] == ["now", "Traceback (most recent call last):"]
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("code", [0, 7])
def test_a_full_disk_does_not_change_the_exit_code(code):
    """Python's own is 120 where it cannot flush standard error."""
    with Path("/dev/full").open("wb") as full:
        ended = installed(f"print('lost', file=sys.stderr)\nsys.exit({code})", stderr=full)
    assert ended.returncode == code


TAKE_AWAY = {"moved": "os.rename(PATH, PATH + '1')", "removed": "os.unlink(PATH)", "there": ""}


@pytest.mark.parametrize("after", TAKE_AWAY)
def test_a_log_file_that_was_taken_away_is_begun_again_when_told(tmp_path, after):
    """Logrotate moves it and sends SIGHUP. One that is still there is left alone."""
    path = tmp_path / "log"
    code = (
        "import os\n"
        "def say(word):\n"
        "    os.write(2, word)\n"
        "say(b'first ')\n"
        f"{TAKE_AWAY[after]}\n"
        "stderr.reopen()\n"
        "say(b'second')\n"
    ).replace("PATH", repr(str(path)))
    with path.open("wb") as log:
        assert installed(code, stderr=log).returncode == 0
    assert path.read_text() == ("first second" if after == "there" else "second")
    assert not (tmp_path / "log1").exists() or (tmp_path / "log1").read_text() == "first "


def test_only_a_file_with_a_name_is_begun_again(tmp_path):
    """A pipe, a terminal, a file that was removed already: nothing is opened."""
    reader, writer = os.pipe()
    assert stderr.path_of(reader) == stderr.path_of(writer) == ""
    os.close(reader)
    os.close(writer)
    assert stderr.path_of(writer) == ""
    path = tmp_path / "log"
    with path.open("w") as file:
        assert stderr.path_of(file.fileno()) == str(path)
        path.unlink()
        assert stderr.path_of(file.fileno()) == ""


def test_a_closed_standard_descriptor_is_never_taken_by_a_socket():
    """Else a line for standard error would go to a client."""
    code = "import socket; print(socket.socket().fileno() > 2, bool(sys.stderr.write('x')))"
    shell = f'exec "{sys.executable}" -c "$1" 0<&- 2>&-'
    head = "import sys\nfrom proxy.telemetry import stderr\nstderr.install()\n"
    ended = subprocess.run(
        ["sh", "-c", shell, "sh", head + code], stdout=subprocess.PIPE, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"True True\n")
