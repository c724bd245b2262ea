"""Log lines: their levels, their format, and the lines that are suppressed."""

import json
import re

import pytest
import structlog

from policies.api import Forward, Hold, Patch, Peer, Reject, Respond, Throttle
from policies.decision import PolicyDecision
from proxy.core.errors import CloseReason
from proxy.telemetry import log
from tests.support.processes.log_lines import PEER

ORDINARY = [
    CloseReason.CLIENT_CLOSED,
    CloseReason.BROKER_CLOSED,
    CloseReason.CLIENT_RESET,
    CloseReason.DRAINED,
    CloseReason.IDLE,
    CloseReason.MAX_AGE,
    CloseReason.ROUTE_CHANGED,
]
LIMIT_REACHED = CloseReason.FILE_DESCRIPTORS_EXHAUSTED
SECRET = "hunter2"  # noqa: S105 - stands for one in a payload


def bug() -> RuntimeError:
    """Return an exception that was raised beside a secret."""

    def stumble(password: str) -> None:
        raise RuntimeError("bug")

    try:
        stumble(SECRET)
    except RuntimeError as error:
        return error
    raise AssertionError


def test_json_is_one_object_a_line_with_time_level_and_event(lines):
    """Field names are stable, because machines read them."""
    written = lines()
    written.observer.on_session_opened(PEER)
    (line,) = written.take()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("ts"))
    assert line == {
        "event": "session_opened",
        "level": "debug",
        "session": 7,
        "client": "10.0.0.9:40000",
        "client_id": "billing-1",
        "node": 2,
    }


def test_text_is_one_line_on_standard_error(lines):
    """The time comes first, so that lines can be sorted by it; without a terminal there are no colours."""
    written = lines(form="text")
    written.observer.on_node_learned(3, "kafka-3", 9092)
    text = written.text()
    assert len(text.splitlines()) == 1
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[info", text)
    assert "\x1b" not in text
    for word in ("node_learned", "node=3", "address=kafka-3:9092"):
        assert word in text


def test_a_node_is_named_with_its_remedy_or_as_the_bootstrap_port(lines):
    """The operator can change the setting that a node has no port in."""
    written = lines()
    written.observer.on_session_opened(Peer(1, "::1", 5))
    assert written.take()[0]["node"] == "bootstrap"

    written = lines()
    written.observer.on_unmapped_node(99)
    (line,) = written.take()
    assert (line["event"], line["level"], line["node"]) == ("unmapped_node", "warning", 99)
    assert "listen.nodes" in line["hint"]


def test_the_level_of_an_end_of_a_session_follows_its_reason(lines):
    """Clients connect and disconnect all the time: that is `debug`; an unusual end is a warning with its detail."""
    written = lines(level="debug")
    for reason in CloseReason:
        if reason is LIMIT_REACHED:
            continue
        written.observer.on_session_closed(PEER, reason, "a frame of -1 bytes")
        (line,) = written.take()
        written.advance(60_000)
        assert line["event"] == "session_closed"
        assert line["level"] == ("debug" if reason in ORDINARY else "warning"), reason
        assert line["reason"] == reason.value
        assert reason in ORDINARY or line["detail"] == "a frame of -1 bytes"
        assert line["client_id"] == "billing-1"


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_internal_error_is_logged_with_its_traceback_and_without_variables(lines, form):
    """The variables may contain a client's data."""
    written = lines(form=form)
    written.observer.on_policy_error("mine", "on_request", bug())
    written.observer.on_internal_error(bug())
    text = written.text()
    for word in ("policy_error", "mine", "on_request", "internal_error"):
        assert word in text
    assert text.count("RuntimeError: bug") == 2
    assert text.count("Traceback") == 2
    assert SECRET not in text


@pytest.mark.parametrize(
    ("verdict", "fields"),
    [
        (Reject(44), {"verdict": "reject", "error": "POLICY_VIOLATION"}),
        (
            Throttle(30, Reject(44, message="why")),
            {"verdict": "reject", "error": "POLICY_VIOLATION", "reason": "why", "delay_ms": 30},
        ),
        (Respond(SECRET.encode()), {"verdict": "respond"}),
        (Forward((Patch(0, SECRET.encode()),)), {"verdict": "change"}),
        (Forward(body=SECRET.encode()), {"verdict": "change"}),
        (Hold(20, SECRET), {"verdict": "hold", "delay_ms": 20}),
    ],
    ids=["reject", "throttled reject", "respond", "patch", "body", "hold"],
)
def test_a_verdict_in_mode_observe_is_logged_without_payload(lines, verdict, fields):
    """The line has its kind, its error and reason, the client and the request, as for an enforced refusal."""
    written = lines()
    decision = PolicyDecision("mine", verdict, PEER, "Fetch", 7)
    written.observer.on_policy_observed(decision)
    written.observer.on_policy_refused(decision)
    text = written.text()
    assert SECRET not in text
    observed, refused = map(json.loads, text.splitlines())
    assert (observed.pop("event"), refused.pop("event")) == (
        "policy_observed",
        "policy_refused",
    )
    assert observed == refused | {"ts": observed["ts"]}
    assert (observed["policy"], observed["api"], observed["user"]) == ("mine", "Fetch", PEER.user)
    who = {"level", "ts", "policy", "api", "user", "session", "client", "client_id", "node"}
    assert {key: observed[key] for key in observed.keys() - who} == fields


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    ("client_id", "shown"),
    [
        ("a\x1b[2Jb", "a?[2Jb"),
        ("a\nts=fake event=ready", "a?ts=fake event=ready"),
        ("a\u202eb\u200bc\x00d\x7f", "a?b?c?d?"),
        ("zwölf-名前", "zwölf-名前"),
        ("x" * 10_000, "x" * 249),
    ],
    ids=["escape", "newline", "invisible", "letters", "long"],
)
def test_a_client_id_is_made_printable(lines, form, client_id, shown):
    """The client chooses it: control characters, forged lines and long texts must not reach the log."""
    written = lines(form=form)
    written.observer.on_session_opened(Peer(1, "10.0.0.9", 1, client_id=client_id))
    if form == "json":
        assert written.take()[0]["client_id"] == shown
    else:
        text = written.text()
        assert len(text.splitlines()) == 1
        assert shown in text
        assert text.rstrip("\n").isprintable()


def test_a_brokers_host_is_made_printable(lines):
    """It comes from the network too."""
    written = lines()
    written.observer.on_node_learned(1, "kafka\x1b[2J", 9092)
    assert written.take()[0]["address"] == "kafka?[2J:9092"


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["session_opened", "node_learned", "unmapped_node"]),
        ("INFO", ["node_learned", "unmapped_node"]),
        ("warning", ["unmapped_node"]),
        ("error", []),
    ],
)
def test_the_level_selects_the_lines_that_are_written(lines, level, events):
    """Its case does not matter."""
    written = lines(level=level)
    written.observer.on_session_opened(PEER)
    written.observer.on_node_learned(1, "kafka-1", 9092)
    written.observer.on_unmapped_node(99)
    assert [line["event"] for line in written.take()] == events


def test_a_changed_level_applies_to_existing_loggers(lines):
    """Loggers are made once; the level is compared for each line."""
    written = lines(level="info")
    logger = structlog.get_logger()
    logger.debug("early")
    assert written.take() == []
    log.set_level("debug")
    assert log.level() == "debug"
    logger.debug("later")
    written.observer.on_session_opened(PEER)
    assert [line["event"] for line in written.take()] == ["later", "session_opened"]
    log.set_level("error")
    logger.warning("hushed")
    written.observer.on_session_opened(PEER)
    written.observer.on_session_closed(PEER, CloseReason.CLIENT_CLOSED, "")
    assert written.take() == []
