"""Process: children are heard line by line, asked to end, and explained when they fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.demo.messages import ClientReady, Final, Message, Tick
from proxy.demo.process import Child, StageError, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPEAKS = """
from proxy.demo.messages import *
cues = Cues()
say(ClientReady())
say(Tick(acked=1))
cues.ended.wait()
say(Final([], 0, 0, 0, {}))
"""
ANSWERS = """
from proxy.demo.messages import *
cues = Cues()
say(Tick())
count = 0
while not cues.ended.wait(0.01):
    while cues.maybe_next() == "mark":
        count += 1
        say(Tick(acked=count))
"""
FAILS = "raise SystemExit('no broker today')"
IS_SILENT = "input()"


@pytest.fixture
def child(tmp_path: Path) -> Callable[[str], Child]:
    """Make a child that runs a piece of Python."""

    def make(code: str) -> Child:
        made = Child("actor", ["runpy"], tmp_path)
        made._command = [made._command[0], "-c", code]
        return made

    return make


async def test_a_child_is_heard_until_its_last_word(child: Callable[[str], Child]) -> None:
    """Messages arrive in order; closing its input brings the last word and its end."""
    actor = child(SPEAKS)
    heard: list[Message] = []

    async with trio.open_nursery() as nursery:
        await actor.start(nursery, heard.append)
        await actor.expect(ClientReady, 30)
        final = await actor.finish(30)
        await actor.kill()

    assert final == Final([], 0, 0, 0, {})
    assert heard == [ClientReady(), Tick(acked=1), final]
    assert actor.process.returncode == 0


async def test_an_answer_is_the_next_message(child: Callable[[str], Child]) -> None:
    """Each question gets the message that came after it, not one that was there before."""
    actor = child(ANSWERS)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        await actor.expect(Tick, 30)
        answers = [await actor.ask("mark", Tick, 30) for _ in range(3)]
        await actor.hang_up()
        await actor.process.wait()
        await actor.kill()

    assert [answer.acked for answer in answers] == [1, 2, 3]


async def test_a_child_that_fails_is_explained(child: Callable[[str], Child]) -> None:
    """What it wrote to standard error is in the error."""
    actor = child(FAILS)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        with pytest.raises(StageError, match="no broker today"):
            await actor.expect(ClientReady, 30)
        await actor.kill()


async def test_a_silent_child_is_not_waited_for_for_ever(child: Callable[[str], Child]) -> None:
    """Patience ends in an error that names what was missing, and the child can be ended."""
    actor = child(IS_SILENT)

    async with trio.open_nursery() as nursery:
        await actor.start(nursery)
        with pytest.raises(StageError, match="no Final within"):
            await actor.expect(Final, 0.01)
        await actor.kill()

    assert actor.process.returncode not in {None, 0}


async def test_a_child_that_never_ran_has_nothing_to_end(child: Callable[[str], Child]) -> None:
    """Killing what was not started does nothing; asking for its process is an error."""
    actor = child(IS_SILENT)

    await actor.kill()

    with pytest.raises(StageError):
        _ = actor.process


def test_settings_of_sluice_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SLUICE_ variable of the user's does not reach the demo; others do."""
    monkeypatch.setenv("SLUICE_LISTEN_PORT", "1")
    monkeypatch.setenv("DEMO_KEPT", "1")

    assert "SLUICE_LISTEN_PORT" not in environment()
    assert environment()["DEMO_KEPT"] == os.environ["DEMO_KEPT"]
