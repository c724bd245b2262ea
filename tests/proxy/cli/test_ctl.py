"""Each command against a real admin server."""

import json
from functools import partial

import pytest
import structlog
import trio
from click.testing import CliRunner

from policies.validation import Problem, SettingsError
from proxy.cli.ctl import ctl
from proxy.cli.top import top
from proxy.config.model import PolicyEntry
from proxy.config.sections import LogSettings
from proxy.telemetry import log
from tests.support.processes.admin_room import AdminRoom, config_of, opened, quota_entry

POLICIES = (quota_entry(), PolicyEntry(use="maintenance"))


@pytest.fixture
async def room(tmp_path):
    before = log.level()
    with structlog.testing.capture_logs():
        async with opened(tmp_path, policies=POLICIES) as made:
            yield made
    log.set_level(before)


@pytest.fixture
def run(room):
    """`sluice ctl ...` in a thread, as the process of its own that it is."""

    async def made(command: str, *arguments: str, code: int = 0, answer: str = "") -> str:
        typed = [command, "--socket", room.admin.socket, *arguments]
        result = await trio.to_thread.run_sync(lambda: CliRunner().invoke(ctl, typed, input=answer))
        assert result.exit_code == code, result.output
        return result.output

    return made


async def test_status_prints_the_state(room, run):
    """In a few lines, or as JSON."""
    room.link()
    assert "1 connections" in await run("status")
    assert json.loads(await run("status", "--json"))["connections_total"] == 1


async def test_connections_are_listed_and_closed(room, run):
    """By id."""
    _, _, session = room.link()
    ident = str(session.peer.session_id)
    listed = await run("connections")
    assert listed.splitlines()[1].split()[0] == ident
    assert ident in await run("close", ident)
    assert session.ended
    room.link()
    room.link()
    assert "1 of 2" in await run("connections", "--limit", "1")
    assert "no connection has the id 999" in await run("close", "999", code=1)


async def test_an_empty_list_prints_none(run):
    """No output looks like a row."""
    for command in ("connections", "purgatory", "decisions"):
        assert await run(command) == "None.\n"
        assert json.loads(await run(command, "--json"))


async def test_the_log_level_is_printed_and_set(run):
    """Both print the level in force."""
    assert await run("log-level", "debug") == "debug\n"
    assert await run("log-level") == "debug\n"
    assert log.level() == "debug"


async def test_a_policy_is_shown_and_changed(run):
    """The change is an argument, or standard input."""
    change = '{"pauses": [{"topic": "orders"}]}'
    changed = await run("policy", "maintenance", "--set", change)
    assert json.loads(changed)["pauses"] == [{"topic": "orders", "user": None}]
    assert await run("policy", "maintenance") == changed
    ended = await run("policy", "maintenance", "--set", "-", answer="{}")
    assert json.loads(ended)["pauses"] == []
    assert "not JSON" in await run("policy", "maintenance", "--set", "{", code=2)
    assert "no policy entry has the name" in await run("policy", "none", code=1)


async def test_a_reload_prints_the_changes_or_the_problems(room, run):
    """One problem a line."""
    assert await run("reload") == "Nothing changed.\n"
    room.settings = config_of(log=LogSettings(level="error"), policies=POLICIES, admin=room.admin)
    assert await run("reload") == "Changed: log.level.\n"
    problems = [Problem("listen.port", "0", "a port"), Problem("log.level", "'x'", "a level")]
    room.settings = SettingsError(problems)
    first, *others = (await run("reload", code=1)).splitlines()
    assert first == "Refused: the configuration is invalid, so nothing was changed:"
    assert [line.split(":")[0] for line in others] == ["  listen.port", "  log.level"]


async def until_drained(room: AdminRoom) -> None:
    """Wait for the drain, which begins after its answer."""
    with trio.fail_after(120):
        while not room.drained:  # noqa: ASYNC110 - a fact of the room, not an event of a task
            await trio.sleep(0.001)


async def test_a_drain_asks_for_confirmation_unless_told_not_to(room, run, monkeypatch):
    """Without a terminal it needs --yes; with one the answer may be no."""
    room.link()
    assert "without a terminal it needs --yes" in await run("drain", code=2)
    monkeypatch.setattr("proxy.cli.ctl.can_confirm", lambda: True)
    said = await run("drain", code=1, answer="n\n")
    assert "Sluice has 1 client connection. Drain and stop it? [y/N]" in said
    assert not room.drained
    assert (await run("drain", answer="y\n")).endswith("Sluice drains.\n")
    await until_drained(room)
    room.drained = False
    assert await run("drain", "--yes") == "Sluice drains.\n"
    await until_drained(room)


async def test_top_without_a_terminal_prints_one_state(room):
    """Without a terminal as with --once: the state and a row for each client; --json prints it all."""
    room.link()
    for option, wanted in (("--once", "ANONYMOUS"), (None, "1 connections"), ("--json", "")):
        typed = ["--socket", room.admin.socket, *([option] if option else [])]
        result = await trio.to_thread.run_sync(partial(CliRunner().invoke, top, typed))
        assert result.exit_code == 0, result.output
        assert wanted in result.output
    assert json.loads(result.output)["now"]["connections"] == 1
