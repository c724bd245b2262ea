"""Processes: messages arrive as they were sent; children are asked to end, and explained when they fail."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import trio

from proxy.demo.processes import (
    ChildProcess,
    ClientReady,
    ClientResult,
    ClientStatus,
    ClusterReady,
    Commands,
    DemoError,
    Message,
    decode,
    environment,
    send,
)

MESSAGES: list[Message] = [
    ClusterReady({1: "127.0.0.1:1"}, "orders-1", 4),
    ClientReady(),
    ClientStatus(1.5, acked=2, consumed=3, latencies_us=[7], at_ns=4, answered=5, answered_at_ns=6),
    ClientResult(10, 2, {1: "127.0.0.1:2"}, {"polite/0": [0, 9]}),
]
REPORTS = """
from proxy.demo.processes import *
commands = Commands()
send(ClientReady())
send(ClientStatus(acked=1))
commands.ended.wait()
send(ClientResult(0, 0, {}))
"""
ANSWERS = """
from proxy.demo.processes import *
commands = Commands()
send(ClientStatus())
count = 0
while not commands.ended.wait(0.01):
    while commands.maybe_next() == "report":
        count += 1
        send(ClientStatus(acked=count))
"""
FAILS = "raise SystemExit('no broker today')"
IS_SILENT = "input()"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_one_line(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is written as one line and read back equal."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=written))

    send(message)

    assert written.getvalue().count(b"\n") == 1
    assert decode(written.getvalue()) == message


def test_anything_else_is_an_error() -> None:
    """A line that is not a message raises DecodeError."""
    with pytest.raises(msgspec.DecodeError):
        decode(b'{"type": "gossip"}')


def test_commands_come_in_order_and_then_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known words are returned one by one, others are skipped; the end of the input sets `ended`."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"start\nnoise\nreport\n")))

    commands = Commands()

    assert commands.ended.wait(10)
    assert [commands.maybe_next() for _ in range(3)] == ["start", "report", None]


@pytest.fixture
def child(tmp_path: Path) -> Callable[[str], ChildProcess]:
    """Make a child that runs a piece of Python."""

    def make(code: str) -> ChildProcess:
        made = ChildProcess("actor", ["runpy"], tmp_path)
        made._command = [made._command[0], "-c", code]
        return made

    return make


async def test_a_child_is_received_until_its_result(child: Callable[[str], ChildProcess]) -> None:
    """Messages arrive in order; closing its input brings the result and its end."""
    actor = child(REPORTS)
    received: list[Message] = []

    async with trio.open_nursery() as nursery:
        await actor.start(nursery, received.append)
        await actor.expect(ClientReady, 30)
        actor.check_running()
        result = await actor.finish(30)
        await actor.kill()

    assert result == ClientResult(0, 0, {})
    assert received == [ClientReady(), ClientStatus(acked=1), result]
    assert actor.process.returncode == 0
    with pytest.raises(DemoError, match="ended too early"):
        actor.check_running()


async def test_an_answer_is_the_next_message(child: Callable[[str], ChildProcess]) -> None:
    """`ask` returns the message that came after the command, not an older one."""
    actor = child(ANSWERS)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        await actor.expect(ClientStatus, 30)
        answers = [await actor.ask("report", ClientStatus, 30) for _ in range(3)]
        await actor.close_input()
        await actor.process.wait()
        await actor.kill()

    assert [answer.acked for answer in answers] == [1, 2, 3]


async def test_a_child_that_fails_is_explained(child: Callable[[str], ChildProcess]) -> None:
    """The error holds what the child wrote to standard error."""
    actor = child(FAILS)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        with pytest.raises(DemoError, match="no broker today"):
            await actor.expect(ClientReady, 30)
        await actor.kill()


async def test_waiting_for_a_silent_child_times_out(child: Callable[[str], ChildProcess]) -> None:
    """The error names the missing message, and the child can be killed."""
    actor = child(IS_SILENT)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        with pytest.raises(DemoError, match="no ClientResult within"):
            await actor.expect(ClientResult, 0.01)
        await actor.kill()

    assert actor.process.returncode not in {None, 0}


async def test_a_child_that_never_ran_needs_no_end(child: Callable[[str], ChildProcess]) -> None:
    """Killing what was not started does nothing; its process is an error."""
    actor = child(IS_SILENT)

    await actor.kill()

    with pytest.raises(DemoError):
        _ = actor.process


def test_settings_of_sluice_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SLUICE_ variable of the user's does not reach the demo; others do."""
    monkeypatch.setenv("SLUICE_LISTEN_PORT", "1")
    monkeypatch.setenv("DEMO_KEPT", "1")

    assert "SLUICE_LISTEN_PORT" not in environment()
    assert environment()["DEMO_KEPT"] == os.environ["DEMO_KEPT"]
