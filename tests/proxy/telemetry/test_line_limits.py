"""The log stays small under any input: one table has every event, with its cause and its limit."""

import ast
import io
import json
import sys
from pathlib import Path

import pytest
import structlog

from proxy.telemetry import log
from proxy.telemetry.line_limits import (
    DEBUG_LINES,
    LIMITS,
    MAX_FIELD_CHARS,
    MAX_LIST_ITEMS,
    MAX_TRACEBACK_CHARS,
    MAX_WINDOWS,
    UNKNOWN,
    LineLimits,
    cut,
)
from tests.support.shell.sockets import HandClock

ROOT = Path(__file__).resolve().parents[3]
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "_warn"}
BY_SINK = "log_lines_lost"
LAST_COUNT = "log_lines_suppressed"
STORM_SECONDS = 60
STORM_PER_SECOND = 100


def loggers(tree: ast.AST) -> list[ast.Call]:
    """Return each call that writes a line: `log.warning(...)`, `self._log.info(...)`, `self._warn(...)`, ..."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = ast.unparse(node.func.value)
        is_logger = owner.endswith(("log", "logger", "get_logger()"))
        if node.func.attr in METHODS and (is_logger or node.func.attr == "_warn"):
            found.append(node)
    return found


def names(argument: ast.expr, where: str) -> set[str]:
    """Return the events of such a call: a text, or one of two."""
    if isinstance(argument, ast.IfExp):
        return names(argument.body, where) | names(argument.orelse, where)
    assert isinstance(argument, ast.Constant), f"{where}: the event is not a text"
    return {argument.value}


def written_events() -> dict[str, str]:
    """Return every event that our code writes, and one place where it does. Only the room `proxy` has a logger."""
    found: dict[str, str] = {}
    for path in (ROOT / "proxy").rglob("*.py"):
        if "demo" in path.parts:
            continue
        for call in loggers(ast.parse(path.read_text("utf-8"))):
            if path.name == "log.py" and ast.unparse(call.args[0]) == "event":
                continue  # the body of `_warn`
            where = f"{path.name}:{call.lineno}"
            found |= dict.fromkeys(names(call.args[0], where), where)
    return found


def test_every_event_is_declared_with_its_limit_and_its_cause():
    """A new event must be added to LIMITS, and an unused one removed."""
    written = written_events()
    assert not written.keys() - LIMITS.keys(), written
    assert not LIMITS.keys() - written.keys()
    assert all(limit.cause and limit.lines > 0 for limit in LIMITS.values())


def test_every_event_is_documented():
    """It is in the table of docs/operate/log.md."""
    text = (ROOT / "docs" / "operate" / "log.md").read_text("utf-8")
    missing = {event for event in (*LIMITS, BY_SINK) if f"`{event}`" not in text}
    assert not missing


@pytest.fixture
def written(monkeypatch):
    """Return a function that returns the JSON lines since its last call, from the real pipeline and a set clock."""
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    clock = HandClock()
    log.configure("debug", "json", clock)

    def take() -> list[dict]:
        lines = [json.loads(line) for line in stderr.getvalue().splitlines()]
        stderr.seek(0)
        stderr.truncate()
        return lines

    take.clock = clock
    yield take
    structlog.reset_defaults()
    log.set_level("info")


@pytest.mark.parametrize("event", ["session_closed", "accept_delayed", "an_event_of_a_plug_in"])
def test_a_storm_of_any_event_is_a_few_lines_with_a_count(written, event):
    """Lines and `suppressed` add up to the number of events, which are counted by event for the metrics."""
    limit = LIMITS.get(event, UNKNOWN)
    observer = log.LogObserver(written.clock, lambda *_: None)
    logger = structlog.get_logger()
    lines: list[dict] = []
    for _ in range(STORM_SECONDS):
        for number in range(STORM_PER_SECOND):
            logger.warning(event, number=number, name="x" * 249)
        lines += written()
        written.clock.now_ms += 1000
    written.clock.now_ms += limit.period_ms
    logger.warning(event)
    lines += written()
    periods = STORM_SECONDS * 1000 // limit.period_ms + 3
    assert len(lines) <= limit.lines * periods
    told = sum(1 + line.get("suppressed", 0) for line in lines)
    assert told == STORM_SECONDS * STORM_PER_SECOND + 1
    assert observer.suppressed[event] == told - len(lines)


def test_ordinary_events_are_limited_at_level_debug_too(written):
    """A scanner opens thousands of connections a second."""
    logger = structlog.get_logger()
    for number in range(20_000):
        logger.debug("session_opened", session=number)
    assert len(written()) == DEBUG_LINES
    logger.warning("session_opened")
    assert len(written()) == 1, "its own count"


def test_a_policy_with_many_errors_hides_no_error_of_another(written):
    """Each policy and hook has its own limit."""
    logger = structlog.get_logger()
    for _ in range(100):
        logger.warning("policy_error", policy="noisy", hook="on_request")
    logger.warning("policy_error", policy="noisy", hook="on_response")
    logger.warning("policy_error", policy="calm", hook="on_request")
    assert len(written()) == 3


def test_lines_below_the_level_use_up_no_limit(written):
    """They are not counted as suppressed either."""
    log.set_level("warning")
    logger = structlog.get_logger()
    for _ in range(100):
        logger.info("session_closed", reason="x")
    logger.warning("session_closed", reason="x")
    assert [line.get("suppressed") for line in written()] == [None]


def test_each_period_has_its_full_limit():
    """This holds after any pause."""
    clock = HandClock()
    limits = LineLimits(clock)
    limit = LIMITS["unmapped_node"]
    for _ in range(3):
        passed = 0
        while not limits.is_full("unmapped_node", {}):
            passed += 1
            limits.pass_one("unmapped_node", {})
        assert passed == limit.lines
        clock.now_ms += 7 * limit.period_ms


@pytest.mark.parametrize("at_end", [False, True], ids=["after its period", "at the end"])
def test_the_last_count_of_any_event_needs_no_later_line(written, at_end):
    """It is told after the period of the limit, or at the end of the process; once."""
    for event in (*(each for each in LIMITS if each != LAST_COUNT), "an_event_of_a_plug_in"):
        limit = LIMITS.get(event, UNKNOWN)
        notes: list[bool] = []
        observer = log.LogObserver(written.clock, lambda *_: None, lambda: notes.append(True))  # noqa: B023 - it is called in this turn
        fields = dict.fromkeys(limit.by, "mine")
        for _ in range(limit.lines + 82):
            structlog.get_logger().warning(event, **fields)
        assert len(written()) == limit.lines
        assert notes == [True]
        assert log.tell_suppressed(), "its period lasts"
        assert not written()
        if at_end:
            observer.close(0)
        else:
            written.clock.now_ms += limit.period_ms
            assert not log.tell_suppressed()
        (line,) = written()
        assert (line["event"], line["level"]) == (LAST_COUNT, "warning")
        assert line["lines"] == {"/".join([event, *fields.values()]): 82}
        assert not log.tell_suppressed(unfinished=True)
        assert not written()
        written.clock.now_ms += limit.period_ms


def deep(count: int) -> None:
    deep(count - 1) if count % 2 else deep(count - 3)


def test_a_traceback_of_a_thousand_frames_is_cut_in_its_middle(written):
    """Its first and last lines, which have the cause and the place, are kept."""
    try:
        deep(10**6)
    except RecursionError as error:
        structlog.get_logger().warning("internal_error", exc_info=error)
    (line,) = written()
    assert len(line["exception"]) < MAX_TRACEBACK_CHARS + 100
    assert line["exception"].startswith("Traceback")
    assert "RecursionError" in line["exception"].splitlines()[-1]


def test_long_fields_are_cut_and_others_are_unchanged():
    """Texts are cut by characters, lists by items."""
    assert cut("x" * MAX_FIELD_CHARS) == "x" * MAX_FIELD_CHARS
    shown = cut("a" * 10_000 + "z")
    assert len(shown) < MAX_FIELD_CHARS + 50
    assert shown.startswith("aaa")
    assert shown.endswith("z")
    many = cut(["y" * 10_000] * 1000)
    assert len(many) == MAX_LIST_ITEMS + 1
    assert many[-1] == f"and {1000 - MAX_LIST_ITEMS} more"
    assert cut(("a", 1)) == ["a", 1]
    assert cut(5) == 5


def test_the_names_of_entries_that_are_gone_are_forgotten():
    """A window is kept while it counts: within its period, or until its suppressed lines were told."""
    clock = HandClock()
    limits = LineLimits(clock)
    kept = {"policy": "noisy", "hook": "close"}
    limits.pass_one("policy_error", kept)
    assert limits.is_full("policy_error", kept)
    for n in range(3 * MAX_WINDOWS):
        clock.now_ms += 1000
        limits.pass_one("policy_error", {"policy": f"entry {n}", "hook": "close"})
    assert len(limits._windows) <= MAX_WINDOWS
    assert limits.pass_one("policy_error", kept) == 1
