"""`sluice quotas`: output, refusals and exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.harness.ports import free_ports
from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from policies.quota.sensors import BucketMetrics
from proxy.cli import options
from proxy.cli.main import main
from tests.support.quotas.quota_book import QuotaServer

RATE = "request_rate"


@pytest.fixture
def server() -> Iterator[QuotaServer]:
    with QuotaServer() as running:
        yield running


def invoke(server: QuotaServer | None, name: str, *arguments: str, **more: str) -> Result:
    where = [] if server is None else ["--bootstrap", server.server]
    return CliRunner(env={"SLUICE_CONFIG": None}).invoke(
        main, ["quotas", name, *where, *arguments], **more
    )


def test_set_prints_the_quotas_in_force(server: QuotaServer) -> None:
    """Several quotas of one user and client id are set at once."""
    bob = QuotaEntity("bob", "report")
    result = invoke(
        server, "set", "--user", "bob", "--client-id", "report", f"{RATE}=20", "producer_byte_rate=1048576"
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1:] == [
        "bob   report     producer_byte_rate     1048576  live",
        "bob   report     request_rate                20  live",
    ]
    assert server.book.quotas.overrides == {bob: {RATE: 20.0, "producer_byte_rate": 1048576.0}}


@pytest.mark.parametrize(
    ("named", "entity"),
    [
        (["--default-user"], QuotaEntity(DEFAULT_NAME)),
        (["--default-client-id"], QuotaEntity(None, DEFAULT_NAME)),
        (["--client-id", "c", "--default-user"], QuotaEntity(DEFAULT_NAME, "c")),
        (["--default-user", "--default-client-id"], QuotaEntity(DEFAULT_NAME, DEFAULT_NAME)),
    ],
)
def test_quotas_of_every_kind_of_entity_are_set_and_removed(
    server: QuotaServer, named: list[str], entity: QuotaEntity
) -> None:
    """The same options name the entity in both commands."""
    assert invoke(server, "set", *named, f"{RATE}=1.5").exit_code == 0
    assert server.book.quotas.overrides == {entity: {RATE: 1.5}}
    result = invoke(server, "remove", *named, RATE)
    assert (result.exit_code, result.stdout) == (0, "The entity has no quota now.\n")
    assert server.book.quotas.overrides == {}


def test_remove_removes_live_quotas_only(server: QuotaServer) -> None:
    """Without a quota's name it removes all of the entity; the config file's quotas then apply again."""
    alice = QuotaEntity("alice")
    server.book.quotas.set(alice, RATE, 100.0)
    server.book.quotas.set_override(alice, RATE, 1.0)
    server.book.quotas.set_override(alice, "consumer_byte_rate", 5.0)
    result = invoke(server, "remove", "--user", "alice", "--dry-run")
    assert (
        result.stdout
        == "Would remove: consumer_byte_rate, request_rate. Nothing was changed (--dry-run).\n"
    )
    result = invoke(server, "remove", "--user", "alice")
    assert result.stdout.splitlines()[1:] == [
        "alice  -          request_rate         100  config file"
    ]
    result = invoke(server, "remove", "--user", "alice")
    assert (result.exit_code, result.stderr) == (1, "The entity has no live quota.\n")
    result = invoke(server, "remove", "--user", "alice", RATE)
    assert result.exit_code == 1
    assert "is set in Sluice's config file" in result.stderr


def test_a_dry_run_changes_nothing(server: QuotaServer) -> None:
    """Its values are checked all the same."""
    result = invoke(server, "set", "--user", "a", f"{RATE}=5", "--dry-run")
    assert (result.exit_code, result.stdout) == (
        0,
        "The change is valid. Nothing was changed (--dry-run).\n",
    )
    assert invoke(server, "set", "--user", "a", f"{RATE}=-5", "--dry-run").exit_code == 1
    assert server.book.saved == b""


def test_list_prints_all_quotas_or_those_of_one_entity(server: QuotaServer) -> None:
    """It prints text or JSON."""
    assert invoke(server, "list").stdout == "There are no quotas.\n"
    assert json.loads(invoke(server, "list", "--json").stdout) == []
    server.book.quotas.set(QuotaEntity("alice"), RATE, 100.0)
    server.book.quotas.set_override(QuotaEntity("bob"), RATE, 7.0)
    assert invoke(server, "list").stdout == (
        "user   client id  quota         per second  from\n"
        "alice  -          request_rate         100  config file\n"
        "bob    -          request_rate           7  live\n"
    )
    (told,) = json.loads(invoke(server, "list", "--json", "--user", "bob").stdout)
    assert (told["user"], told["per_second"], told["origin"]) == ("bob", 7.0, "override")


def test_usage_is_printed_once(server: QuotaServer) -> None:
    """It is plain text or JSON."""
    shown = invoke(server, "usage").stdout.splitlines()
    assert shown[1].split() == ["alice", "-", RATE, "10", "5", "50%", "-", "-", "2"]
    (told,) = json.loads(invoke(server, "usage", "--json").stdout)
    assert (told["user"], told["limit"], told["waiting"]) == ("alice", 10.0, 2)
    server.book.rows.clear()
    assert invoke(server, "usage").stdout == "No client with a quota has connected.\n"
    server.book.rows = [
        BucketMetrics(f"u{n}", "", RATE, 1.0, 1.0, None, None, 0) for n in range(1001)
    ]
    assert invoke(server, "usage").stderr == "The busiest 1000 of 1001.\n"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("set", ["--user", "a"], "Missing argument"),
        ("set", [f"{RATE}=1"], "Name an entity"),
        ("remove", [RATE], "Name an entity"),
        ("set", ["--user", "a", "--default-user", f"{RATE}=1"], "exclude each other"),
        ("set", ["--user", "", f"{RATE}=1"], "--user: found nothing, expected a name"),
        ("set", ["--user", "a", RATE], f"found '{RATE}', expected QUOTA=VALUE"),
        ("set", ["--user", "a", f"{RATE}=fast"], "expected a number"),
        ("set", ["--user", "a", f"{RATE}=1", f"{RATE}=2"], "is given twice"),
        ("list", ["--bootstrap", "here"], "expected HOST:PORT"),
        ("list", ["--password-file", "-"], "needs --login"),
        ("list", ["--config", "no-such.yaml"], "no-such.yaml"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    name: str, arguments: list[str], words: str
) -> None:
    """The exit code is 2, and no server is asked."""
    result = invoke(None, name, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_an_unreachable_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1. Where the address is the default, the message says how to give another."""
    port = free_ports()
    result = invoke(None, "list", "--bootstrap", f"127.0.0.1:{port}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Nothing answers at 127.0.0.1:{port}: ")
    monkeypatch.setattr(options, "DEFAULT_SERVER", f"127.0.0.1:{port}")
    told = invoke(None, "list").stderr
    assert told == result.stderr.rstrip() + " Name a Sluice by --bootstrap or --config.\n"


def test_the_configuration_names_the_server(server: QuotaServer, tmp_path: Path) -> None:
    """It is given by option or variable; a listener on every address is asked on this machine."""
    file = tmp_path / "sluice.yaml"
    listen = f"{{address: '{server.server.partition(':')[0]}', port: {server.port}}}"
    file.write_text(f"upstream: {{bootstrap_servers: [a:1]}}\nlisten: {listen}\n", "utf-8")
    assert invoke(None, "list", "-c", str(file)).stdout == "There are no quotas.\n"
    result = CliRunner(env={"SLUICE_CONFIG": str(file)}).invoke(main, ["quotas", "list"])
    assert result.exit_code == 0
    port = free_ports()
    listen = f"{{address: 0.0.0.0, advertised_host: elsewhere, port: {port}}}"
    file.write_text(f"upstream: {{bootstrap_servers: [a:1]}}\nlisten: {listen}\n", "utf-8")
    assert f"Nothing answers at 127.0.0.1:{port}" in invoke(None, "list", "-c", str(file)).stderr


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_an_admin_logs_in(tmp_path: Path, mechanism: str) -> None:
    """The password is read from a file, from standard input, or by a prompt."""
    password = tmp_path / "password"
    password.write_text("open sesame\n", "utf-8")
    set_it = ["--user", "a", f"{RATE}=1", "--login", "ops", "--sasl-mechanism", mechanism]
    with QuotaServer(admins=["ops"], users={"ops": "open sesame"}) as server:
        assert invoke(server, "set", *set_it, "--password-file", str(password)).exit_code == 0
        piped = invoke(server, "set", *set_it, "--password-file", "-", input="open sesame\n")
        assert piped.exit_code == 0
        asked = invoke(server, "set", *set_it, input="open sesame\n")
        assert asked.exit_code == 0
        assert "open sesame" not in asked.output
        wrong = invoke(server, "set", *set_it, input="wrong\n")
        assert wrong.exit_code == 1
        assert "ops could not log in" in wrong.stderr


def test_other_commands_do_not_import_the_quota_commands() -> None:
    """`sluice run` imports neither kafka-python nor the modules of `sluice quotas`."""
    code = (
        "import sys; import proxy.cli.main;"
        "print(*sorted({'kafka', 'rich', 'proxy.cli.kafka_quotas', 'policies.quota.entity'}"
        " & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert told.stdout.strip() == ""


def test_a_quota_that_applies_to_no_client_is_set_with_a_warning(server: QuotaServer) -> None:
    """The warning names the quota that overrides it."""
    invoke(server, "set", "--default-user", f"{RATE}=1000")
    result = invoke(server, "set", "--client-id", "noisy", f"{RATE}=50")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"warning: {RATE} is set, but it holds for no client: the {RATE} of {{user: <default>}}"
    )
    assert server.book.quotas.get(QuotaEntity(None, "noisy"), RATE) == 50


def test_explain_names_the_quotas_in_force_and_those_they_override(server: QuotaServer) -> None:
    """It does so for each kind of quota of one client; a default stands for many clients and is refused."""
    invoke(server, "set", "--default-user", f"{RATE}=1000")
    invoke(server, "set", "--client-id", "noisy", f"{RATE}=50", "producer_byte_rate=4096")
    result = invoke(server, "explain", "--user", "bob", "--client-id", "noisy")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{RATE}: 1000 per second, by {{user: <default>}}",
        "  One bucket for user bob, over all connections and brokers of this Sluice.",
        "  It outranks {client_id: noisy}, 50 per second.",
        "producer_byte_rate: 4096 per second, by {client_id: noisy}",
        "  One bucket for client id noisy, over all connections and brokers of this Sluice.",
        "consumer_byte_rate: no limit applies",
    ]

    result = invoke(server, "explain", "--default-user")
    assert result.exit_code == 2
    assert "Name one client" in result.stderr
