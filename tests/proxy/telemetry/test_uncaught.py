"""Nothing reaches standard error past the log: uncaught exceptions and warnings are its lines."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys, threading, warnings
from proxy.telemetry import log, stderr, uncaught
stderr.install()
log.configure("info", "json")
uncaught.install()

class Dying:
    def __del__(self):
        raise ValueError("a\\x1b[2Jb")

class Failing(logging.Handler):
    def emit(self, record):
        try:
            raise ValueError("a handler")
        except ValueError:
            self.handleError(record)

def stumble():
    raise ValueError("in a thread")

"""
CAUSES = {
    "a finalizer": ("Dying()", "internal_error", "Dying.__del__"),
    "a thread": (
        "each = threading.Thread(target=stumble, name='t'); each.start(); each.join()",
        "internal_error",
        "thread t",
    ),
    "the process": ("stumble()", "internal_error", "the process ends"),
    "a warning": ("warnings.warn('old\\nway')", "library_message", ""),
    "an unawaited coroutine": (
        "async def wait(): pass\nwait()\nimport gc; gc.collect()",
        "library_message",
        "",
    ),
    "a library": ("logging.getLogger('lib').error('no\\nway')", "library_message", ""),
}


def errors_of(program: str) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_one_line_of_the_log(cause: str) -> None:
    """With its event, the place and no control character."""
    program, event, where = CAUSES[cause]
    (line,) = errors_of(program)
    assert line["event"] == event
    assert where in line.get("where", "")
    assert all(text.isprintable() for name, text in line.items() if name != "exception")
    assert ("Traceback" in line.get("exception", "")) is (event == "internal_error")


def test_many_are_counted_and_what_is_no_fault_writes_nothing() -> None:
    """Any client may be able to cause many; a handler that fails and a thread that exits are no faults of Sluice."""
    program = """
logging.getLogger('lib').addHandler(Failing())
logging.getLogger('lib').error('no way')
each = threading.Thread(target=sys.exit); each.start(); each.join()
for _ in range(500): Dying()
"""
    lines = errors_of(program)
    assert 0 < len(lines) <= 3
    assert all(line.get("where", "Dying").endswith(("Dying", "Dying.__del__")) for line in lines)
    assert "library_message" not in {line["event"] for line in lines}


def test_a_server_name_that_python_cannot_decode_has_no_line_of_its_own() -> None:
    """`handshake_failed` tells it: this hook gets the bytes, and an exception about the same bytes."""
    program = """
import ssl
from contextlib import suppress
from tests.support.shell.tls import hello_asking_for
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.sni_callback = lambda *_: None
sent = ssl.MemoryBIO()
sent.write(hello_asking_for(b"\\xe4.test"))
with suppress(ssl.SSLError):
    context.wrap_bio(sent, ssl.MemoryBIO(), server_side=True).do_handshake()
"""
    assert errors_of(program) == []
