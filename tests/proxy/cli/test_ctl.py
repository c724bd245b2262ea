"""Each command against a real admin server."""

from __future__ import annotations

import json

import pytest
import structlog
import trio
from click.testing import CliRunner

from policies.validation import Problem, SettingsError
from proxy.cli.ctl import ctl, top
from proxy.config import Log
from proxy.telemetry import log
from tests.support.admin_room import config_of, opened, quota_entry


@pytest.fixture
async def room(tmp_path):
    before = log.level()
    with structlog.testing.capture_logs():
        async with opened(tmp_path, policies=(quota_entry(),)) as made:
            yield made
    log.set_level(before)


@pytest.fixture
def run(room):
    """`sluice ctl ...` in a thread, as the process of its own that it is."""

    async def made(*arguments: str, command=ctl, code: int = 0, answer: str = "") -> str:
        *path, last = arguments or ("",)
        named = [*path, last] if last else []
        options = ["--socket", room.admin.socket]
        result = await trio.to_thread.run_sync(
            lambda: CliRunner().invoke(command, _with(named, options, command), input=answer)
        )
        assert result.exit_code == code, result.output
        return result.output

    return made


def _with(arguments: list[str], options: list[str], command) -> list[str]:
    """The options stand behind the command's name."""
    if command is top:
        return [*options, *arguments]
    deep = 2 if arguments[0] == "quotas" else 1
    return [*arguments[:deep], *options, *arguments[deep:]]


async def test_status_and_top_say_how_it_is(room, run):
    """In words, or as it came."""
    room.link()
    assert "1 connections" in await run("status")
    assert json.loads(await run("status", "--json"))["connections_total"] == 1
    said = await run("--once", command=top)
    assert "1 connections" in said
    assert "ANONYMOUS" in said
    assert json.loads(await run("--json", command=top))["now"]["connections"] == 1


async def test_connections_are_listed_and_closed(room, run):
    """By id."""
    _, _, session = room.link()
    ident = str(session.peer.session_id)
    listed = await run("connections")
    assert listed.splitlines()[1].split()[0] == ident
    assert ident in await run("close", ident)
    assert session.ended
    assert "no such connection" in await run("close", "999", code=1)


async def test_lists_that_are_empty_say_so(run):
    """And print nothing that could be taken for a row."""
    for command in ("connections", "purgatory", "decisions"):
        assert await run(command) == "There are none.\n"
        assert json.loads(await run(command, "--json"))


async def test_quotas_are_listed_set_and_taken_back(run):
    """What holds is printed each time."""
    assert "100" in await run("quotas", "list")
    said = await run("quotas", "set", "--user", "bob", "request_rate=2.5", "producer_byte_rate=10")
    assert [line.split() for line in said.splitlines() if line.startswith("bob")] == [
        ["bob", "-", "request_rate", "2.5", "live"],
        ["bob", "-", "producer_byte_rate", "10", "live"],
    ]
    said = await run("quotas", "remove", "--user", "bob", "request_rate")
    assert "2.5" not in said
    said = await run("quotas", "remove", "--user", "bob", "--json")
    assert [q["user"] for q in json.loads(said)["quotas"]] == ["alice"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("quotas", "set", "request_rate=1"), 2),
        (("quotas", "set", "--user", "a", "request_rate"), 2),
        (("quotas", "set", "--user", "a", "request_rate=x"), 2),
        (("quotas", "set", "--user", "a", "request_percentage=1"), 1),
        (("quotas", "set", "--user", "a", "request_rate=-1"), 1),
        (("quotas", "remove", "--user", "alice", "request_rate"), 1),
        (("log-level", "loud"), 2),
        (("connections", "--most", "0"), 2),
    ],
)
async def test_what_cannot_be_done_has_its_exit_code(run, arguments, code):
    """2: it cannot be asked; 1: the answer is no."""
    assert await run(*arguments, code=code)


async def test_the_log_level_is_printed_and_set(run):
    """Both print what holds."""
    assert await run("log-level", "debug") == "debug\n"
    assert await run("log-level") == "debug\n"
    assert log.level() == "debug"


async def test_a_reload_says_what_changed_or_what_is_wrong(room, run):
    """Line by line."""
    assert await run("reload") == "Nothing is different.\n"
    room.settings = config_of(log=Log(level="error"), policies=(quota_entry(),), admin=room.admin)
    assert await run("reload") == "Changed: log.level.\n"
    problems = [Problem("listen.port", "0", "a port"), Problem("log.level", "'x'", "a level")]
    room.settings = SettingsError(problems)
    first, *others = (await run("reload", code=1)).splitlines()
    assert first == "Sluice refused: the configuration cannot be used, so nothing was changed:"
    assert [line.split(":")[0] for line in others] == ["  listen.port", "  log.level"]


async def test_a_drain_asks_first_unless_it_is_told_not_to(room, run, monkeypatch):
    """A script, which cannot answer, must say --yes; a person may say no."""
    room.link()
    assert "needs a yes: give --yes" in await run("drain", code=2)
    monkeypatch.setattr("proxy.cli.ctl.is_asked", lambda: True)
    said = await run("drain", code=1, answer="n\n")
    assert "Sluice has 1 client connection. Drain and end it? [y/N]" in said
    assert not room.drained
    assert (await run("drain", answer="y\n")).endswith("It drains.\n")
    assert room.drained
    room.drained = False
    assert await run("drain", "--yes") == "It drains.\n"
    assert room.drained


async def test_tasks_are_printed_by_place(run):
    """With how many wait there."""
    said = await run("tasks")
    assert "serve_listeners" in said
    assert " tasks\n" in said
