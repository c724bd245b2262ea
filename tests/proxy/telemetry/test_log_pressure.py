"""The log under pressure: lines that may be lost, lines of libraries, limits of the system."""

import errno
import json
import logging
import re
import sys

from policies.api import Peer
from proxy.core.errors import CloseReason
from proxy.telemetry import log
from proxy.telemetry.log import LINES_PER_SECOND
from proxy.telemetry.stderr import NonBlockingWriter
from tests.support.processes.log_lines import PEER


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


def test_a_limit_that_delays_clients_is_logged_once_a_minute(lines):
    """It is reported at each pause while clients wait; each limit has its own lines."""
    written = lines(level="info")
    for _ in range(600):
        written.observer.on_accept_delayed("max_connections", 96)
        written.observer.on_accept_delayed("max_connection_creation_rate", 5)
        written.advance(100)
    told = written.take()
    assert len(told) <= 4
    assert {(line["event"], line["limit"], line["value"]) for line in told} == {
        ("accept_delayed", "max_connections", 96),
        ("accept_delayed", "max_connection_creation_rate", 5),
    }


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


def test_a_storm_of_one_event_is_logged_a_few_times_a_second(lines):
    """The next line has the number of suppressed ones."""
    written = lines()

    def storm(events: int) -> list[dict]:
        for _ in range(events):
            written.observer.on_session_closed(PEER, CloseReason.UPSTREAM_REFUSED, "")
        return written.take()

    first = storm(LINES_PER_SECOND + 37)
    assert len(first) == LINES_PER_SECOND
    assert all("suppressed" not in line for line in first)
    written.clock.now_ms += 1000
    second = storm(3)
    assert [line.get("suppressed") for line in second] == [37, None, None]
    written.clock.now_ms += 1000
    assert [line.get("suppressed") for line in storm(1)] == [None]


def test_replies_in_the_brokers_place_are_logged_once_a_second_by_kind(lines):
    """The first is logged at once, the others after a second; the line names the last client."""
    written = lines()
    for name in ("Produce", "Fetch", "Fetch"):
        written.observer.on_expired(PEER, name)
    (line,) = written.take()
    line.pop("ts")
    assert line == {
        "event": "requests_expired",
        "level": "warning",
        "produce": 1,
        "session": 7,
        "client": "10.0.0.9:40000",
        "client_id": "billing-1",
        "node": 2,
    }
    written.advance(999)
    written.observer.on_expired(Peer(8, "10.0.0.9", 40001, node_id=3), "Produce")
    assert written.take() == []
    written.advance(1)
    (line,) = written.take()
    assert (line["produce"], line["fetch"], line["node"]) == (1, 2, 3)
    written.advance(5000)
    assert written.take() == [], "nothing new, no line"
    written.observer.on_expired(PEER, "Fetch")
    (line,) = written.take()
    assert (line["fetch"], "produce" in line) == (1, False)


def test_the_end_of_the_process_tells_expired_requests_that_wait_for_their_second(lines):
    """Its timer then logs nothing more."""
    written = lines()
    for _ in range(3):
        written.observer.on_expired(PEER, "Fetch")
    assert len(written.take()) == 1
    written.observer.close(0)
    (line,) = written.take()
    assert (line["event"], line["fetch"]) == ("requests_expired", 2)
    written.advance(10_000)
    assert written.take() == []
