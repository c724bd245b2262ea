"""Members of lines: whatever a policy or a client puts there, the line stays small, valid, printable and true."""

import io
import json
import sys
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.audit_facts import AuditFacts, AuditItem
from proxy.core.observer import Observer
from proxy.telemetry import audit_lines, log
from proxy.telemetry.escaping import MAX_NAME_CHARS, printable
from proxy.telemetry.line_limits import LIMITS
from proxy.telemetry.message_fields import MAX_FIELDS, message_fields
from tests.support.shell.sockets import HandClock


class Hostile:
    """Its `repr` is a policy's code."""

    def __repr__(self) -> NoReturn:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "orders"),
        (7, 7),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ("two\nlines\x1b[0m", "two?lines?[0m"),
        (b"\x00secret", "b'\\x00secret'"),
        (float("nan"), "nan"),
        (Hostile(), "an object of type Hostile"),
        ([Hostile()], "an object of type list"),
    ],
)
def test_a_field_is_plain_or_shown_as_its_repr(value: object, shown: object) -> None:
    """Numbers and texts as they are, without control characters."""
    assert message_fields("found", {"x": value}) == {"message": "found", "x": shown}


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, 10**9999, list(range(10**6)), {"a": "x" * 10**6}],
    ids=["text", "number", "list", "mapping"],
)
def test_a_field_is_bounded(value: object) -> None:
    """A large value is cut."""
    (shown,) = [each for name, each in message_fields("m", {"x": value}).items() if name == "x"]
    assert len(str(shown)) <= 1_000


def test_names_of_the_log_are_not_replaced_and_further_fields_are_counted() -> None:
    """A policy cannot pretend to be another one, or to be an event of Sluice; a line has MAX_FIELDS at most."""
    fields = {"policy": "other", "event": "ready", "level": "debug", "exc_info": True}
    assert set(message_fields("m", fields)) == {"message", *(f"{name}_" for name in fields)}

    line = message_fields("m", {f"f{n}": n for n in range(MAX_FIELDS + 5)})
    assert len(line) == MAX_FIELDS + 2
    assert line["fields_left_out"] == 5


@pytest.fixture
def clock() -> HandClock:
    """Return the clock of the limits."""
    return HandClock()


@pytest.fixture
def stderr(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return where the real log writes its JSON lines."""
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    log.configure("info", "json", clock)
    return stderr


def test_lines_of_a_policy_are_limited_and_name_it(stderr: io.StringIO, clock: HandClock) -> None:
    """A noisy entry does not suppress the lines of another; what is suppressed is counted."""
    observer: Observer = log.LogObserver(clock, lambda *_: None)
    limit = LIMITS["policy_message"].lines
    for number in range(limit + 40):
        observer.on_policy_message("noisy", "warning", "again", {"number": number})
    observer.on_policy_message("calm", "error", "once", {})
    observer.on_policy_message("calm", "debug", "below the level", {})
    clock.now_ms += 1_000
    observer.on_policy_message("noisy", "info", "again", {})

    lines = [json.loads(line) for line in stderr.getvalue().splitlines()]
    assert {line["event"] for line in lines} == {"policy_message"}
    assert [line["policy"] for line in lines] == ["noisy"] * limit + ["calm", "noisy"]
    assert lines[0]["number"] == 0
    assert lines[-2] == {"event": "policy_message", "policy": "calm", "message": "once"} | {
        key: lines[-2][key] for key in ("level", "ts")
    }
    assert lines[-1]["suppressed"] == 40


def test_a_name_in_a_log_line_is_printable_and_short():
    """Other characters are shown as a question mark; a printable short name stays as it is."""
    assert printable("a\x1b[2J\n" + "b" * 1000) == "a?[2J?" + "b" * (MAX_NAME_CHARS - 6)
    assert printable("billing", 4) == "bill"
    assert printable("żółć 日本") == "żółć 日本"


NAMES = st.lists(st.text(max_size=300), max_size=200).map(tuple)


@given(NAMES)
def test_what_is_not_listed_is_counted(names):
    """The names have any characters."""
    found = audit_lines.fact_fields(AuditFacts(topics=names, left_out={"topics": 2, "done": 1}))
    listed = found["topics"]
    assert len(audit_lines.encode(listed).encode()) <= audit_lines.MAX_LIST_BYTES + 2
    assert found["left_out"] == {"topics": 2 + len(names) - len(listed), "done": 1}
    json.loads(audit_lines.encode(found))


@given(NAMES)
def test_of_what_was_done_nothing_is_left_out(names):
    """Each piece has its bound, and they are in order."""
    done = tuple(AuditItem(name, 0) for name in names)
    pieces = audit_lines.done_pieces(AuditFacts(done=done))
    assert [item.get("name", "") for piece in pieces for item in piece] == [
        audit_lines.safe_text(name) for name in names
    ]
    for piece in pieces:
        assert len(audit_lines.encode(piece).encode()) <= audit_lines.MAX_LIST_BYTES + 2
