"""One line for each change, in the proxy's words."""

from __future__ import annotations

import pytest
import structlog

from proxy.admin.audit import REFUSED_PER_SECOND, Audit, note, printable


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
    Audit("socket", lambda: 0).change(asked, 200)
    (line,) = logged
    assert line["event"] == "admin_change"
    assert line["client"] == "uid 1000 pid 12"
    assert (line["user"], line["quotas"], line["way"]) == ("alice", {"request_rate": 5}, "socket")


def test_a_storm_of_refusals_is_counted_and_not_written(logged):
    """The next line that passes says how many there were."""
    now_ms = [0]
    audit = Audit("control", lambda: now_ms[0])
    for _ in range(REFUSED_PER_SECOND + 4):
        audit.change(scope(), 401)
    assert len(logged) == REFUSED_PER_SECOND
    now_ms[0] = 1000
    audit.change(scope(), 401)
    assert logged[-1]["suppressed"] == 4


def test_changes_are_never_held_back(logged):
    """Each of them may be the one that somebody looks for."""
    audit = Audit("control", lambda: 0)
    for _ in range(3 * REFUSED_PER_SECOND):
        audit.change(scope(), 200)
    assert len(logged) == 3 * REFUSED_PER_SECOND


def test_a_callers_words_are_printable_and_short():
    """They go to somebody's terminal."""
    assert printable("a\x1b[2J\n" + "b" * 1000) == "a?[2J?" + "b" * 294
