"""One line for each change, in the proxy's words."""

from __future__ import annotations

import json

import pytest
import structlog

from proxy.admin.change_log import ChangeLog, note, printable
from proxy.admin.middleware import CHANGES_AT_ONCE, CHANGES_PER_SECOND
from proxy.telemetry import log
from proxy.telemetry.line_limits import LIMITS
from tests.support.sockets import HandClock

REFUSED_PER_SECOND = LIMITS["admin_refused"].lines


@pytest.fixture(autouse=True)
def as_before():
    yield
    structlog.reset_defaults()


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as lines:
        yield lines


def scope(path: str = "/v1/drain", **more) -> dict:
    return {"method": "POST", "path": path, "client": ("h", 1), "state": {}, **more}


def test_a_line_says_what_the_handler_noted(logged):
    """And who asked: for a Unix socket the kernel's word."""
    asked = scope(client=None)
    asked["state"]["peer"] = "uid 1000 pid 12"
    note(asked, user="alice")
    note(asked, quotas={"request_rate": 5})
    ChangeLog("socket").change(asked, 200)
    (line,) = logged
    assert line["event"] == "admin_change"
    assert line["client"] == "uid 1000 pid 12"
    assert (line["user"], line["quotas"], line["way"]) == ("alice", {"request_rate": 5}, "socket")


def test_a_storm_of_refusals_is_counted_and_not_written(capsys):
    """The next line that passes says how many there were; each listener has its own count."""
    clock = HandClock()
    log.configure("info", "json", clock)
    socket_audit, audit = ChangeLog("socket"), ChangeLog("control")
    for _ in range(REFUSED_PER_SECOND + 4):
        audit.change(scope(), 401)
    socket_audit.change(scope(), 401)
    assert len(capsys.readouterr().err.splitlines()) == REFUSED_PER_SECOND + 1
    clock.now_ms += 1000
    audit.change(scope(), 401)
    assert json.loads(capsys.readouterr().err)["suppressed"] == 4


def test_as_many_changes_as_the_server_takes_are_all_written(capsys):
    """Each of them may be the one that an operator looks for."""
    log.configure("info", "json", HandClock())
    audits = [ChangeLog("socket"), ChangeLog("control")]
    changes = CHANGES_AT_ONCE + CHANGES_PER_SECOND
    for audit in audits:
        for _ in range(changes):
            audit.change(scope(), 200)
    assert len(capsys.readouterr().err.splitlines()) == len(audits) * changes


def test_a_callers_words_are_printable_and_short():
    """They go to somebody's terminal."""
    assert printable("a\x1b[2J\n" + "b" * 1000) == "a?[2J?" + "b" * 294
