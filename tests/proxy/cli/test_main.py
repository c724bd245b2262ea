"""What each command answers, and with which exit code."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from proxy.broker_probe import BrokerReport
from proxy.cli.main import DEMO_PAGE, DEMO_SECONDS, main
from proxy.config import sizing
from proxy.config.container import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from proxy.config import Config


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """`proxy.app` that remembers what it was asked to run."""
    ran: list[Config] = []

    def run(config: Config, load: Callable[[], Config]) -> int:
        ran.append(config)
        assert load() == config  # what a reload would read
        return 7

    def probe_brokers(config: Config) -> list[BrokerReport]:
        servers = config.upstream.bootstrap_servers
        brokers = {1: ("kafka-1", 9092), 40: ("kafka-40", 9092)}
        return [
            BrokerReport(each, "refused")
            if each.startswith("dead")
            else BrokerReport(each, brokers=brokers)
            for each in servers
        ]

    fake = types.SimpleNamespace(ran=ran, run=run, probe_brokers=probe_brokers)
    monkeypatch.setattr("proxy.app", fake, raising=False)
    monkeypatch.setitem(sys.modules, "proxy.app", fake)
    return fake


def invoke(*arguments: str | Path, **environ: str) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], env=environ)


def written(folder: Path, text: str) -> Path:
    file = folder / "s.yaml"
    file.write_text(text, "utf-8")
    return file


def test_run_needs_no_file(app: types.SimpleNamespace) -> None:
    """Flags alone make a configuration; the exit code is the proxy's own."""
    result = invoke("run", "--upstream", "a:1,b:2", "--listen", "[::1]:2000", "--nodes", "1-3")
    assert result.exit_code == 7
    (config,) = app.ran
    assert config.upstream.bootstrap_servers == ("a:1", "b:2")
    assert (config.listen.address, config.listen.port) == ("::1", 2000)
    assert config.listen.node_ids() == (1, 2, 3)


@pytest.mark.parametrize("by_variable", [False, True])
def test_run_with_a_file(app: types.SimpleNamespace, tmp_path: Path, *, by_variable: bool) -> None:
    """The file may be named by flag or variable; flags lie over it."""
    file = written(tmp_path, "upstream: {bootstrap_servers: [a:1]}\nlisten: {address: '::1'}\n")
    if by_variable:
        invoke("run", "--listen", ":3000", SLUICE_CONFIG=str(file))
    else:
        invoke("run", "--config", file, "--listen", ":3000")
    (config,) = app.ran
    assert (config.listen.address, config.listen.port) == ("::1", 3000)


def test_run_refuses_bad_settings_before_anything_else(app: types.SimpleNamespace) -> None:
    """Exit code 2, every problem on standard error, and the proxy is never begun."""
    result = invoke("run", "--nodes", "3-1", SLUICE_LISTEN_PORT="x")
    assert result.exit_code == 2
    assert app.ran == []
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == "3 problems in the settings:"
    assert "listen.nodes (--nodes): found '3-1'" in result.stderr
    assert "listen.port (SLUICE_LISTEN_PORT): found 'x'" in result.stderr
    assert "upstream.bootstrap_servers: found nothing" in result.stderr


def test_a_policy_that_cannot_be_made_is_a_setting_to_mend(tmp_path: Path) -> None:
    """What is found only when a policy is made, in a file of its own: a sentence, and exit code 2."""
    state = written(tmp_path, '{"version": 9}')
    policies = f"[{{use: quota, config: {{state_file: {state}}}}}]"
    result = invoke("run", "--upstream", "a:1", SLUICE_POLICIES=policies)
    assert result.exit_code == 2
    assert (
        "policies[0].config.state_file (SLUICE_POLICIES): its content is of version 9"
        in result.stderr
    )


def test_listen_needs_a_port() -> None:
    """An address alone is a usage error."""
    result = invoke("run", "--upstream", "a:1", "--listen", "127.0.0.1")
    assert result.exit_code == 2
    assert "expected ADDRESS:PORT" in result.stderr


def test_check_says_yes_or_names_every_mistake(tmp_path: Path) -> None:
    """Exit code 0 for a sound file; 1 and all mistakes, policies' own included, for another."""
    good = invoke("check", "--config", written(tmp_path, "upstream: {bootstrap_servers: [a:1]}"))
    assert good.exit_code == 0
    assert good.stdout.startswith("The settings are valid; policies: 0.\nMemory, at most:\n")
    text = "listen: {prot: 1}\npolicies: [{use: limits, config: {forbiden_apis: []}}]\n"
    bad = invoke("check", "--config", written(tmp_path, text))
    assert bad.exit_code == 1
    assert bad.stderr.count("\n") == 4
    assert "did you mean port?" in bad.stderr
    assert "did you mean forbidden_apis?" in bad.stderr


def test_what_cannot_fit_its_container_is_refused_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`check` says no (1), `run` does not start (2); both say which terms make the sum."""
    limit = MemoryLimit(128 << 20, "memory.max")
    monkeypatch.setattr(sizing, "memory_limit", lambda: limit)
    big = {"SLUICE_MEMORY_QUEUED_MAX_REQUEST_BYTES": str(200 << 20)}
    for command, code in (("check", 1), ("run", 2)):
        result = invoke(command, "--upstream", "a:1", **big)
        assert result.exit_code == code
        assert "memory: found" in result.stderr
        assert "200.0 MiB requests + 1.0 MiB replies" in result.stderr
        assert "85% of the limit of 134217728 (memory.max)" in result.stderr
    fits = invoke("check", "--upstream", "a:1")
    assert fits.exit_code == 0
    assert "108.8 MiB, may be used (memory.max)" in fits.stdout


@pytest.mark.parametrize(("servers", "code"), [("a:1,b:1", 0), ("a:1,dead:1", 1)])
@pytest.mark.usefixtures("app")
def test_check_connect_tries_the_brokers(servers: str, code: int) -> None:
    """Each server is answered for; one that cannot be reached makes the answer no."""
    result = invoke("check", "--upstream", servers, "--connect")
    assert result.exit_code == code
    assert "a:1: a Kafka broker; it names 2 brokers\n" in result.stdout
    assert "  broker 1 at kafka-1:9092: port 19094 here\n" in result.stdout
    assert "  broker 40 at kafka-40:9092: no port here" in result.stdout
    assert ("dead:1: refused\n" in result.stderr) == bool(code)


def test_config_prints_what_holds_and_why() -> None:
    """YAML with origins on standard output, hints on standard error."""
    result = invoke("config", "--upstream", "a:1", SLUICE_LOG_LEVEL="debug", SLUICE_LOG_LEVL="x")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["log"] == {"level": "debug", "format": "text"}
    assert "# SLUICE_LOG_LEVEL\n" in result.stdout
    assert "did you mean SLUICE_LOG_LEVEL?" in result.stderr


def test_config_schema_needs_no_settings() -> None:
    """The schema is JSON, whatever the settings are."""
    result = invoke("config", "--schema")
    assert result.exit_code == 0
    assert (
        json.loads(result.stdout)["$defs"]["ListenSettings"]["properties"]["port"]["maximum"]
        == 65535
    )


def test_demo_passes_its_options_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo hears for how long, whether plainly, and where its page goes; its verdict is the exit code."""
    heard: list[tuple[float, bool, Path]] = []

    def play(seconds: float, *, plain: bool, page: Path) -> int:
        heard.append((seconds, plain, page))
        return 1

    monkeypatch.setitem(sys.modules, "proxy.demo", types.SimpleNamespace(run=play))
    assert invoke("demo", "--seconds", "3", "--plain", "--page", "run.html").exit_code == 1
    assert invoke("demo").exit_code == 1
    assert heard == [(3.0, True, Path("run.html")), (DEMO_SECONDS, False, DEMO_PAGE)]


def test_version_names_both() -> None:
    """Sluice's version and Python's, which a report of a fault needs."""
    result = invoke("version")
    assert result.exit_code == 0
    assert result.stdout.startswith("sluice ")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in result.stdout


def test_the_module_is_the_command() -> None:
    """`python -m proxy` behaves as `sluice`, exit code included."""
    command = [sys.executable, "-m", "proxy"]
    told = subprocess.run([*command, "version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("sluice ")
    refused = subprocess.run([*command, "run"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2


def test_a_bad_file_opens_no_port(tmp_path: Path) -> None:
    """The process ends with 2 although its port is taken: it never came to bind it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = written(tmp_path, f"listen: {{port: {port}}}\nlog: {{level: loud}}\n")
        command = [sys.executable, "-m", "proxy", "run", "--config", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "log.level" in ended.stderr


def test_checking_settings_imports_no_machine() -> None:
    """Start-up is precious: the command line and the settings need no Trio, no rich, no kio."""
    code = (
        "import sys; from proxy.cli.main import DEMO_SECONDS, main; import proxy.config.sources;"
        "print(*sorted({'trio', 'rich', 'kio', 'yaml', 'structlog', 'asyncio',"
        " 'importlib.metadata', 'proxy.app', 'proxy.demo'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == ""


def test_check_says_in_json_what_it_says_in_words(tmp_path: Path) -> None:
    """For editors and CI: one object, and the same exit code."""
    file = written(
        tmp_path, "upstream: {bootstrap_servers: [a:1], socket_connection_setup_timeout_ms: 10s}\n"
    )
    result = invoke("check", "-c", file, "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    told = json.loads(result.stdout)
    assert told["valid"] is False
    (problem,) = told["problems"]
    assert problem["path"] == "upstream.socket_connection_setup_timeout_ms"
    assert problem["origin"] == f"{file}:1"
    assert problem["nearest"] == "10000"
    fine = invoke("check", "--upstream", "a:1", "--json")
    assert fine.exit_code == 0
    assert json.loads(fine.stdout) == {"valid": True, "problems": [], "hints": []}


@pytest.mark.parametrize(("command", "code"), [("check", 1), ("run", 2)])
def test_check_and_run_refuse_the_same_and_name_every_mistake_at_once(
    command: str, code: int, tmp_path: Path, app: types.SimpleNamespace
) -> None:
    """Whatever is wrong elsewhere: types, files, folders, variables, ports, a policy's mode and its config."""
    state = tmp_path / "quotas.json"
    state.write_text("{")
    file = written(
        tmp_path,
        f"""\
upstream: {{bootstrap_servers: [a], socket_connection_setup_timeout_ms: 10s}}
admin: {{listen: "127.0.0.1:19095", token_file: {tmp_path}/none, socket: {tmp_path}/none/a.sock}}
usage_log: {{directory: {file_in(tmp_path)}/usage-log}}
traces: {{file: {tmp_path}/none/traces.jsonl}}
policies:
- {{use: quota, mode: watch, config: {{quotas: [{{user: a, request_rate: many}}]}}}}
- {{use: quota, name: saved, config: {{state_file: {state}}}}}
""",
    )
    result = invoke(command, "-c", file, OTEL_BSP_MAX_QUEUE_SIZE="many")
    assert result.exit_code == code
    assert app.ran == []
    for path in (
        "upstream.bootstrap_servers[0]",
        "upstream.socket_connection_setup_timeout_ms",
        "policies[0].mode",
        "policies[0].config.quotas[0].request_rate",
        "policies[1].config.state_file",
        "admin.listen",
        "admin.token_file",
        "admin.socket",
        "usage_log.directory",
        "traces.file",
        "(the environment): OTEL_BSP_MAX_QUEUE_SIZE",
    ):
        assert path in result.stderr


def file_in(folder: Path) -> Path:
    file = folder / "file"
    file.touch()
    return file


@pytest.mark.parametrize("command", [["--version"], ["version"]])
def test_the_version_can_be_asked_both_ways(command: list[str]) -> None:
    """By the option that every program has, and by the command."""
    result = invoke(*command)
    assert result.exit_code == 0
    assert result.stdout.startswith("sluice 0.")
