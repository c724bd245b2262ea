"""Processes: a child is asked, answers and ends; one that fails is explained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.demo.processes import (
    ChildProcess,
    ClientReady,
    ClientResult,
    ClusterReady,
    DemoError,
    environment,
)

ANSWERS = """
import time
from proxy.demo.processes import *
send(ClientReady({1: "a:1"}))
count = 0
while (command := maybe_command()) != "":
    if command is None:
        time.sleep(0.01)
    else:
        count += 1
        send(ClientStatus(7, count, 0, [1.5], [20]))
send(ClientResult(count, 0))
"""
FAILS = "raise SystemExit('no broker today')"
IS_SILENT = "input()"


@pytest.fixture
def child(tmp_path: Path) -> Callable[[str], ChildProcess]:
    """Return a function that starts a child which runs a piece of Python."""
    return lambda code: ChildProcess("actor", ["-c", code], tmp_path)


def test_each_command_is_answered_until_the_end(child: Callable[[str], ChildProcess]) -> None:
    """The answer is the one to this command; closing the input brings the result."""
    with child(ANSWERS) as actor:
        ready = actor.expect(ClientReady)
        answers = [actor.ask("report") for _ in range(3)]
        result = actor.finish()

    assert ready.brokers == {1: "a:1"}
    assert [answer.acked for answer in answers] == [1, 2, 3]
    assert (answers[0].latencies_ms, answers[0].throttles_ms) == ([1.5], [20])
    assert result == ClientResult(3, 0)


def test_a_child_that_fails_is_explained(child: Callable[[str], ChildProcess]) -> None:
    """The error has what it wrote to standard error, also when it is noticed at the next command."""
    with child(FAILS) as actor:
        with pytest.raises(DemoError, match="no broker today"):
            actor.expect(ClusterReady)
        actor.process.wait()
        with pytest.raises(DemoError, match="actor ended too early"):
            actor.ask("report")


def test_a_silent_child_is_given_up(child: Callable[[str], ChildProcess]) -> None:
    """The error names the missing message, and the child is killed at the end of the block."""
    with child(IS_SILENT) as actor, pytest.raises(DemoError, match="no ClientReady within"):
        actor.expect(ClientReady, 0.01)

    assert actor.process.returncode not in {None, 0}


def test_settings_of_sluice_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SLUICE_ variable of the user's does not reach the demo; others do."""
    monkeypatch.setenv("SLUICE_LISTEN_PORT", "1")
    monkeypatch.setenv("DEMO_KEPT", "1")

    assert "SLUICE_LISTEN_PORT" not in environment()
    assert environment()["DEMO_KEPT"] == "1"
