"""`sluice quotas` over the admin server: the same commands, and the same output, as over Kafka."""

import json
from functools import partial

import pytest
import structlog
import trio
from click.testing import CliRunner

from proxy.cli.main import main
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.processes.admin_room import opened, quota_entry


@pytest.fixture
async def room(tmp_path):
    with structlog.testing.capture_logs():
        async with opened(tmp_path, policies=(quota_entry(),)) as made:
            yield made


@pytest.fixture
def run(room):
    """`sluice quotas ... --socket PATH` in a thread; returns what it prints."""

    async def made(command: str, *arguments: str, code: int = 0) -> str:
        typed = ["quotas", command, "--socket", room.admin.socket, *arguments]
        result = await trio.to_thread.run_sync(partial(CliRunner().invoke, main, typed))
        assert result.exit_code == code, result.output
        return result.output

    return made


async def test_quotas_are_listed_set_and_removed(run):
    """Each change prints the quotas of its entity."""
    assert (await run("list")).splitlines()[1] == (
        "alice  -          request_rate         100  config file"
    )
    said = await run("set", "--user", "bob", "request_rate=2.5", "producer_byte_rate=10")
    assert [line.split() for line in said.splitlines()[1:]] == [
        ["bob", "-", "producer_byte_rate", "10", "live"],
        ["bob", "-", "request_rate", "2.5", "live"],
    ]
    said = await run("remove", "--user", "bob", "request_rate")
    assert [line.split()[2] for line in said.splitlines()[1:]] == ["producer_byte_rate"]
    assert await run("remove", "--user", "bob") == "The entity has no quota now.\n"
    assert "no live quota" in await run("remove", "--user", "bob", code=1)


async def test_a_list_is_narrowed_by_name(run):
    """A user with all its client ids; the default is named by its option."""
    await run("set", "--user", "alice", "--client-id", "app", "request_rate=1")
    await run("set", "--default-user", "request_rate=2")
    for options, values in (
        (("--user", "alice"), [1, 100]),
        (("--client-id", "app"), [1]),
        (("--default-user",), [2]),
        (("--user", "unknown"), []),
    ):
        rows = json.loads(await run("list", "--json", *options))
        assert [each["per_second"] for each in rows] == values, options


async def test_usage_has_a_row_for_each_bucket_in_use(room, run):
    """A client that sends a request draws on its bucket."""
    assert await run("usage") == "No client with a quota has connected.\n"
    await run("set", "--client-id", "noisy", "request_rate=50")
    Wire(room.engine).client(f.heartbeat(1, client_id="noisy"))
    (row,) = json.loads(await run("usage", "--json"))
    assert (row["user"], row["client_id"], row["limit"]) == (None, "noisy", 50.0)
    assert row["rate"] > 0
    assert (await run("usage")).splitlines()[1].split()[:4] == [
        "-",
        "noisy",
        "request_rate",
        "50",
    ]
    assert json.loads(await run("usage", "--json", "--client-id", "other")) == []


async def test_explain_reads_the_list(run):
    """The same sentences as over Kafka."""
    said = await run("explain", "--user", "alice")
    assert "request_rate: 100 per second, by {user: alice}" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("set", "--user", "a", "request_percentage=1"), 1, "Refused: "),
        (("set", "--user", "a", "request_rate=-1"), 1, "Refused: "),
        (("remove", "--user", "alice", "request_rate"), 1, "config file"),
        (("set", "--user", "a", "request_rate=-1", "--dry-run"), 1, "Refused: "),
        (("list", "--login", "me"), 2, "Give one of the two"),
    ],
)
async def test_a_failure_has_its_exit_code_and_message(run, arguments, code, words):
    """1: refused; 2: invalid options."""
    assert words in await run(*arguments, code=code)
