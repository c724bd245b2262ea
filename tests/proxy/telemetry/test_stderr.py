"""Standard error as a file object that never blocks and never raises."""

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
    NonBlockingWriter,
)


class Pipe:
    """Replaces write(2): `fault` is raised, `part` is the most bytes taken, `held` blocks."""

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


def deliver(log: NonBlockingWriter) -> None:
    """Do the work of the thread until it would wait; without a thread the order is known."""
    while log._queue or log._gap:
        log._deliver(*log._take())


def test_lines_are_written_in_order_with_one_write_each(pipe):
    """A thread writes them; `close` waits for it."""
    log = NonBlockingWriter(pipe.write)
    log.start()
    for number in range(1000):
        log.write(f"line {number}\n")
    assert log.finish(10)
    assert pipe.lines() == [f"line {number}" for number in range(1000)]
    assert log.lines_lost == 0


def test_text_waits_for_its_newline_and_threads_do_not_mix(pipe):
    """Python prints a traceback in many pieces."""
    log = NonBlockingWriter(pipe.write)
    log.write("Trace")
    other = threading.Thread(target=lambda: print("other", "thread", file=log))
    other.start()
    other.join()
    print("back", 1, file=log)
    log.write("the last word")
    log.start()
    assert log.finish(10)
    assert pipe.lines() == ["other thread", "Traceback 1", "the last word"]


def test_a_pipe_that_is_not_read_blocks_no_writer(pipe):
    """The queue is bounded; when the pipe is read again, one line has the number of lost lines at their place."""
    pipe.is_open.clear()
    log = NonBlockingWriter(pipe.write)
    log.start()
    line = "x" * 99
    for _ in range(3 * MAX_QUEUE_LINES):
        log.write(line + "\n")
    assert log.unwritten <= MAX_QUEUE_LINES + 1  # and the line in the thread's hand
    lost = log.lines_lost
    assert lost >= 2 * MAX_QUEUE_LINES - 1
    pipe.is_open.set()
    assert log.finish(10)
    assert log.lines_lost == lost
    assert pipe.lines().count(line) == 3 * MAX_QUEUE_LINES - lost
    assert pipe.lines()[-1] == f"log_lines_lost lines={lost}"


def test_the_queue_is_bounded_in_bytes_too(pipe):
    """Long lines are cut, and a few of them fill the queue like many short ones."""
    log = NonBlockingWriter(pipe.write)
    for _ in range(100):
        log.write("y" * (3 * MAX_LINE_BYTES) + "\n")
    assert log.lines_lost == 100 - log.unwritten
    for _ in range(100):
        log.write("z" * MAX_LINE_BYTES)  # never a newline
    log.start()
    assert log.finish(60)
    *lines, notice = pipe.lines()
    assert sum(len(line) + 1 for line in lines) <= MAX_QUEUE_BYTES
    assert max(map(len, lines)) < MAX_LINE_BYTES
    assert notice == f"log_lines_lost lines={200 - len(lines)}"


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_lines_that_cannot_be_written_are_counted_and_reported_later(pipe, number):
    """Nothing is raised; the report precedes the next line that is written."""
    log = NonBlockingWriter(pipe.write)
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


def test_a_line_after_a_partial_one_is_complete(pipe):
    """The disk becomes full in the middle of a line."""
    log = NonBlockingWriter(pipe.write)
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
def test_every_line_is_written_or_reported_as_lost(steps):
    """For any order of events, lines written and lines lost add up to all lines, and the reports to the lost ones."""
    pipe = Pipe()
    log = NonBlockingWriter(pipe.write)
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


def test_close_does_not_wait_for_a_pipe_that_is_not_read(pipe):
    """It returns that lines are left, and accepts no more."""
    pipe.is_open.clear()
    log = NonBlockingWriter(pipe.write)
    log.start()
    log.write("never\n")
    assert not log.finish(0.01)
    log.write("after the end\n")
    assert log.lines_lost == 1


def test_the_object_can_be_printed_to_as_a_text_file(pipe):
    """Characters that cannot be encoded are escaped; click and print accept it."""
    log = NonBlockingWriter(pipe.write, is_terminal=True)
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
    """EAGAIN does not lose a line."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = b"x" * 100_000  # more than a pipe holds
    log = NonBlockingWriter(lambda part: stderr.write_when_possible(writer, part))
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


def test_a_replaced_standard_error_is_not_replaced_again(monkeypatch):
    """A test or an embedding program has replaced it."""
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


def test_the_traceback_that_ends_the_process_is_written():
    """It is the last output, and the exit code is Python's."""
    ended = installed("print('now', file=sys.stderr)\n1 / 0", stderr=subprocess.PIPE)
    assert ended.returncode == 1
    lines = ended.stderr.decode().splitlines()
    assert lines[:2] == ["now", "Traceback (most recent call last):"]
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("code", [0, 7])
def test_a_full_disk_does_not_change_the_exit_code(code):
    """Python itself exits with 120 when it cannot flush standard error."""
    with Path("/dev/full").open("wb") as full:
        ended = installed(f"print('lost', file=sys.stderr)\nsys.exit({code})", stderr=full)
    assert ended.returncode == code


TAKE_AWAY = {"moved": "os.rename(PATH, PATH + '1')", "removed": "os.unlink(PATH)", "there": ""}


@pytest.mark.parametrize("after", TAKE_AWAY)
def test_a_log_file_that_was_moved_is_opened_again_on_demand(tmp_path, after):
    """Logrotate moves the file and sends SIGHUP. A file that still has its name is kept open."""
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


def test_only_a_file_with_a_name_is_opened_again(tmp_path):
    """Nothing is opened for a pipe, a terminal or a file that was already removed."""
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


def test_a_closed_standard_descriptor_is_never_reused_for_a_socket():
    """A line for standard error would go to a client otherwise."""
    code = "import socket; print(socket.socket().fileno() > 2, bool(sys.stderr.write('x')))"
    shell = f'exec "{sys.executable}" -c "$1" 0<&- 2>&-'
    head = "import sys\nfrom proxy.telemetry import stderr\nstderr.install()\n"
    ended = subprocess.run(
        ["sh", "-c", shell, "sh", head + code], stdout=subprocess.PIPE, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"True True\n")
