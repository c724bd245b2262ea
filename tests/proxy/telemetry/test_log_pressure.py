"""The log under pressure: lines that may be lost, lines of libraries, limits of the system."""

import errno
import json
import logging
import re
import sys

import pytest
import structlog

from proxy.core.errors import CloseReason
from proxy.telemetry import log
from proxy.telemetry.stderr import NonBlockingWriter
from tests.proxy.telemetry.test_log import PEER, Lines


@pytest.fixture
def lines(capsys):
    yield lambda **options: Lines(capsys, **options)
    structlog.reset_defaults()


def test_a_lack_of_descriptors_is_logged_once_a_minute(lines):
    """It may stop an accept, a dial or a library; all causes share the limit."""
    written = lines(level="info")
    for _ in range(1000):
        written.observer.on_descriptors_exhausted("Too many open files")
        written.observer.on_session_closed(
            PEER, CloseReason.FILE_DESCRIPTORS_EXHAUSTED, "kafka:9092: no"
        )
        log.log_library_record(library_record(OSError(errno.EMFILE, "Too many open files")))
    (line,) = written.take()
    assert (line["event"], line["detail"]) == ("file_descriptors_exhausted", "Too many open files")
    assert "limit of open files" in line["hint"]
    written.advance(60_000)
    written.observer.on_descriptors_exhausted("Too many open files")
    (line,) = written.take()
    assert line["suppressed"] == 2999


def test_the_limit_of_connections_is_logged_once_a_minute(lines):
    """It is reported at each pause while clients wait."""
    written = lines(level="info")
    for _ in range(600):
        written.observer.on_connections_full(96)
        written.advance(100)
    (line, *_) = told = written.take()
    assert len(told) <= 2
    assert (line["event"], line["max_connections"]) == ("max_connections_reached", 96)


def library_record(error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("some.library", logging.ERROR, "f", 1, "a %s\x1b", ("b",), info)


def test_a_line_of_a_library_is_an_event_without_its_traceback(lines):
    """Python would print all of it. Trio, for one, logs a traceback ten times a second for a failing accept."""
    written = lines(level="info")
    for _ in range(100):
        logging.lastResort.handle(library_record(ZeroDivisionError()))
    (line,) = written.take()
    assert (line["event"], line["logger"]) == ("library_message", "some.library")
    assert line["message"] == "a b?"
    assert "exception" not in line
    logging.lastResort.handle(logging.LogRecord("x", logging.ERROR, "f", 1, "%d", ("no",), None))
    assert written.take() == []


def test_lines_that_standard_error_did_not_take_are_reported_in_the_same_format(monkeypatch, lines):
    """This holds for text and JSON at every level."""
    sink = NonBlockingWriter(len)
    monkeypatch.setattr(sys, "stderr", sink)
    written = lines(level="error")
    told = json.loads(sink.notice(7))
    assert (told["event"], told["level"], told["lines"]) == ("log_lines_lost", "warning", 7)
    assert sink.notice(7).endswith("\n")
    sink.lines_lost = 3
    assert written.observer.lines_lost == log.lines_lost() == 3
    lines(form="text")
    assert "log_lines_lost" in sink.notice(7)
    assert "lines=7" in sink.notice(7)


def test_the_time_comes_first_in_text(lines):
    """Lines of several processes can be sorted by it."""
    written = lines(form="text")
    written.observer.on_node_learned(3, "kafka-3", 9092)
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[info", written.text())
