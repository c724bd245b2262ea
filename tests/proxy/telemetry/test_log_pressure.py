"""The log under pressure: lines that may be lost, lines of libraries, limits of the system."""

import errno
import json
import logging
import sys
import threading
from dataclasses import replace

import trio
from trio.testing import wait_all_tasks_blocked

from policies.api import Peer
from proxy.core.errors import CloseReason
from proxy.telemetry import log
from proxy.telemetry.line_limits import EVERY_S, LIMITS, LastCounts
from proxy.telemetry.pool_outages import POOL_EVERY_MS
from proxy.telemetry.stderr import NonBlockingWriter
from tests.support.processes.log_lines import PEER
from wire.apis import OFFERED, ApiKey, known

REMOVED = known(ApiKey.FETCH, 3)


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


def test_a_client_with_a_removed_version_is_named_once_a_minute(lines):
    """The line says what to use; a client that comes again and again does not hide the next one."""
    written = lines()
    limit = LIMITS["removed_version"]
    for _ in range(2 * limit.lines):
        written.observer.on_removed_version(PEER, REMOVED)
    (line,) = written.take()
    line.pop("ts")
    assert line == {
        "event": "removed_version",
        "level": "warning",
        "api": "Fetch",
        "version": 3,
        "removed_in": "Kafka 4.0 (KIP-896)",
        "use": f"4 to {OFFERED[ApiKey.FETCH][1]}",
        "effect": "later brokers close the connection",
        "session": 7,
        "client": "10.0.0.9:40000",
        "client_id": "billing-1",
        "node": 2,
    }
    for n in range(2 * limit.lines):
        written.observer.on_removed_version(replace(PEER, client_id=f"c-{n}"), REMOVED)
    assert [line["client_id"] for line in written.take()] == [
        f"c-{n}" for n in range(limit.lines - 1)
    ]
    written.advance(limit.period_ms)
    written.observer.on_removed_version(PEER, REMOVED)
    (line,) = written.take()
    assert (line["client_id"], line["suppressed"]) == ("billing-1", limit.lines + 1)


def test_the_end_of_the_process_tells_what_waits_for_its_time(lines):
    """Expired requests and depletions of pools; their timers then log nothing more."""
    written = lines()
    for _ in range(3):
        written.observer.on_expired(PEER, "Fetch")
        written.observer.on_pool_depleted("requests")
        written.observer.on_pool_recovered("requests", 60)
    assert len(written.take()) == 2
    written.observer.close(0)
    told = {line["event"]: line for line in written.take()}
    assert told.keys() == {"requests_expired", "pool_recovered"}
    assert (told["requests_expired"]["fetch"], told["pool_recovered"]["times"]) == (2, 3)
    written.advance(2 * POOL_EVERY_MS)
    assert written.take() == []


def test_a_depletion_of_a_pool_is_logged_and_so_is_its_end(lines):
    """The first line names the pool and the effect, the second has the duration; each pool has its own."""
    written = lines()
    written.observer.on_pool_depleted("requests")
    written.observer.on_pool_depleted("replies")
    depleted, replies = written.take()
    assert (depleted["event"], depleted["pool"]) == ("pool_depleted", "requests")
    assert "wait" in depleted["effect"]
    assert "times" not in depleted
    assert replies["effect"] != depleted["effect"]
    written.advance(12_000)
    assert written.take() == [], "it is dry, and that was said"
    written.observer.on_pool_recovered("requests", 12_000)
    (recovered,) = written.take()
    assert (recovered["event"], recovered["pool"]) == ("pool_recovered", "requests")
    assert (recovered["times"], recovered["depleted_ms"]) == (1, 12_000)
    assert "effect" not in recovered


def test_frequent_depletions_of_a_pool_are_summed_up(lines):
    """A line has their number and duration since the last one and the present state; the last is followed by none."""
    written = lines()
    for _ in range(250):  # 25 seconds, depleted for six tenths of the time
        written.observer.on_pool_depleted("requests")
        written.advance(60)
        written.observer.on_pool_recovered("requests", 60)
        written.advance(40)
    written.advance(2 * POOL_EVERY_MS)
    told = written.take()
    assert len(told) == 4
    assert sum(line.get("times", 0) for line in told) == 250
    assert sum(line.get("depleted_ms", 0) for line in told) == 250 * 60
    assert told[-1]["event"] == "pool_recovered"
    assert written.timers.next_ms() is None
    written.advance(POOL_EVERY_MS)
    written.observer.on_pool_depleted("requests")
    (line,) = written.take()
    assert (line["event"], "times" in line) == ("pool_depleted", False)


async def test_it_tells_a_second_after_a_line_was_left_out_and_then_sleeps(nursery, autojump_clock):
    """Each second again while a count is kept."""
    kept = [True, True, False]
    told: list[float] = []

    def tell() -> bool:
        told.append(trio.current_time() - began)
        return kept.pop(0)

    counts = LastCounts(lambda: False)
    counts.add(tell)
    nursery.start_soon(counts.run)
    await trio.sleep(1000)
    began = trio.current_time()
    counts.note()
    await trio.sleep(1000)
    assert [round(at / EVERY_S) for at in told] == [1, 2, 3]


async def test_a_thread_may_leave_out_a_line(nursery, mock_clock):
    """Libraries log in threads of their own."""
    told: list[bool] = []
    counts = LastCounts(lambda: bool(told.append(True)))
    nursery.start_soon(counts.run)
    await wait_all_tasks_blocked()
    thread = threading.Thread(target=counts.note)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    await wait_all_tasks_blocked()
    mock_clock.jump(EVERY_S)
    await wait_all_tasks_blocked()
    assert told == [True]


async def test_a_line_left_out_before_the_start_is_told_too(nursery, autojump_clock):
    """The log is there before the event loop."""
    told: list[bool] = []
    counts = LastCounts(lambda: bool(told.append(True)))
    counts.note()
    nursery.start_soon(counts.run)
    await trio.sleep(10)
    assert told == [True]
