"""The change log: one line for each change that is made through the admin server."""

import json

import pytest
import structlog

from proxy.admin.change_log import ChangeLog, add_details
from proxy.admin.middleware import CHANGES_AT_ONCE, CHANGES_PER_SECOND
from proxy.telemetry import log
from proxy.telemetry.line_limits import LIMITS
from tests.support.shell.sockets import HandClock

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


def test_a_line_has_the_caller_and_what_the_handler_noted(logged):
    """The caller on a Unix socket is the user id that the kernel reports."""
    asked = scope(client=None)
    asked["state"]["peer"] = "uid 1000 pid 12"
    add_details(asked, user="alice")
    add_details(asked, quotas={"request_rate": 5})
    ChangeLog("socket").change(asked, 200)
    (line,) = logged
    assert line["event"] == "admin_change"
    assert line["client"] == "uid 1000 pid 12"
    assert (line["user"], line["quotas"], line["way"]) == ("alice", {"request_rate": 5}, "socket")


def test_refusals_over_the_line_limit_are_counted_and_not_written(capsys):
    """The next line carries their number; each listener has a count of its own."""
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


def test_every_change_that_the_server_accepts_is_written(capsys):
    """The line limit is never below the server's limit on changes."""
    log.configure("info", "json", HandClock())
    audits = [ChangeLog("socket"), ChangeLog("control")]
    changes = CHANGES_AT_ONCE + CHANGES_PER_SECOND
    for audit in audits:
        for _ in range(changes):
            audit.change(scope(), 200)
    assert len(capsys.readouterr().err.splitlines()) == len(audits) * changes
