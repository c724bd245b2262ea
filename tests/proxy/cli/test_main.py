"""The commands of `sluice`: their output and their exit codes."""

import json
import socket
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from proxy.admin.errors import RefusedError, UnreachableError
from proxy.cli.errors import exits_on_failure
from proxy.cli.main import DEMO_PAGE, DEMO_SECONDS
from tests.support.processes.command_line import invoke, written


def test_run_needs_no_file(app: types.SimpleNamespace) -> None:
    """Flags alone make a configuration; the exit code is that of the proxy."""
    result = invoke("run", "--upstream", "a:1,b:2", "--listen", "[::1]:2000", "--nodes", "1-3")
    assert result.exit_code == 7
    (config,) = app.ran
    assert config.upstream.bootstrap_servers == ("a:1", "b:2")
    assert (config.listen.address, config.listen.port) == ("::1", 2000)
    assert config.listen.node_ids() == (1, 2, 3)


def test_run_refuses_bad_settings_before_anything_else(app: types.SimpleNamespace) -> None:
    """The exit code is 2, every problem is on standard error, and the proxy is not started."""
    result = invoke("run", "--nodes", "3-1", SLUICE_LISTEN_PORT="x")
    assert result.exit_code == 2
    assert app.ran == []
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == "3 problems in the settings:"
    assert "listen.nodes (--nodes): found '3-1'" in result.stderr
    assert "listen.port (SLUICE_LISTEN_PORT): found 'x'" in result.stderr
    assert "upstream.bootstrap_servers: found nothing" in result.stderr


def test_a_policy_that_cannot_be_built_is_a_configuration_error(tmp_path: Path) -> None:
    """Its fault is in a file of its own and found when it is built; the exit code is 2."""
    state = written(tmp_path, '{"version": 9}')
    policies = f"[{{use: quota, config: {{state_file: {state}}}}}]"
    result = invoke("run", "--upstream", "a:1", SLUICE_POLICIES=policies)
    assert result.exit_code == 2
    assert (
        "policies[0].config.state_file (SLUICE_POLICIES): its content has version 9"
        in result.stderr
    )


def test_config_prints_the_effective_configuration_and_its_origins() -> None:
    """The YAML is on standard output, hints are on standard error."""
    result = invoke("config", "--upstream", "a:1", SLUICE_LOG_LEVEL="debug", SLUICE_LOG_LEVL="x")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["log"] == {"level": "debug", "format": "text"}
    assert "# SLUICE_LOG_LEVEL\n" in result.stdout
    assert "did you mean SLUICE_LOG_LEVEL?" in result.stderr


def test_config_schema_needs_no_settings() -> None:
    """The schema is JSON and does not depend on the settings."""
    result = invoke("config", "--schema")
    assert result.exit_code == 0
    assert (
        json.loads(result.stdout)["$defs"]["ListenSettings"]["properties"]["port"]["maximum"]
        == 65535
    )


def test_demo_passes_its_options_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo gets its duration, page, usage log and quota file; its verdict is the exit code."""
    heard: list[dict[str, object]] = []

    def play(seconds: float, **options: object) -> int:
        heard.append({"seconds": seconds} | options)
        return 1

    monkeypatch.setitem(sys.modules, "proxy.demo", types.SimpleNamespace(run=play))
    log = ("--usage-log", "log", "--quotas", "q.yaml")
    assert invoke("demo", "--seconds", "3", "--page", "run.html", *log).exit_code == 1
    assert invoke("demo").exit_code == 1
    assert heard == [
        {
            "seconds": 3.0, "page": Path("run.html"),
            "usage_log": Path("log"), "quotas_file": Path("q.yaml"),
        },
        {
            "seconds": DEMO_SECONDS, "page": DEMO_PAGE,
            "usage_log": None, "quotas_file": None,
        },
    ]  # fmt: skip


def test_quotas_of_the_demo_need_a_usage_log() -> None:
    """Without one the demo sets its quota itself."""
    result = invoke("demo", "--quotas", "q.yaml")

    assert result.exit_code == 2
    assert "--quotas needs --usage-log" in result.stderr


def test_the_module_is_the_command() -> None:
    """`python -m proxy` behaves as `sluice`, exit code included."""
    command = [sys.executable, "-m", "proxy"]
    told = subprocess.run([*command, "version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("sluice ")
    refused = subprocess.run([*command, "run"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2


@pytest.mark.parametrize("words", [["--help"], ["config", "--schema"]])
def test_output_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    """On a full disk every command says so and ends with exit code 1, however long its output is."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "sluice", *words]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "error: standard output cannot be written: No space left on device\n"
    assert ended.returncode == 1


def test_an_invalid_file_opens_no_port(tmp_path: Path) -> None:
    """The exit code is 2 although the port is in use: Sluice did not try to bind it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = written(tmp_path, f"listen: {{port: {port}}}\nlog: {{level: loud}}\n")
        command = [sys.executable, "-m", "proxy", "run", "--config", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "log.level" in ended.stderr


def test_the_start_imports_neither_trio_nor_kio_and_a_command_no_other() -> None:
    """The start of the command line must be quick, and a proxy keeps no other command in memory."""
    code = (
        "import sys; from proxy.cli.main import COMMANDS, DEMO_SECONDS, main; import proxy.config.sources\n"
        "print(*sorted({'trio', 'rich', 'kio', 'yaml', 'structlog', 'asyncio',"
        " 'importlib.metadata', 'proxy.app', 'proxy.demo'} & set(sys.modules)))\n"
        "try: main(['run', '--help'])\nexcept SystemExit: pass\n"
        "print(*({f'proxy.cli.{each}' for each in COMMANDS.values()} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *_, last = told.stdout.splitlines()
    assert (first, last) == ("", "")


@pytest.mark.parametrize("command", [["--version"], ["version"]])
def test_the_version_is_printed_by_an_option_and_by_a_command(command: list[str]) -> None:
    """Both print that of Python and the build, too: a report of a fault needs them."""
    result = invoke(*command)
    assert result.exit_code == 0
    assert result.stdout.startswith("sluice 0.")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in result.stdout
    assert result.stdout.strip().endswith((", pure)", ", compiled)"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnreachableError("No Sluice answers at s."), "No Sluice answers at s.\n"),
        (RefusedError(409, "a \x1b[2J name"), "Refused: a \\x1b[2J name\n"),
        (RefusedError(422, "no", ["a.b: x", "c: y"]), "Refused: no:\n  a.b: x\n  c: y\n"),
    ],
)
def test_both_errors_end_the_program_with_a_message(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1; the message goes to standard error, with control characters escaped."""
    with pytest.raises(SystemExit) as ended, exits_on_failure():
        raise error
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", said)


def test_listen_needs_a_port() -> None:
    """An address alone is a usage error."""
    result = invoke("run", "--upstream", "a:1", "--listen", "127.0.0.1")
    assert result.exit_code == 2
    assert "expected ADDRESS:PORT" in result.stderr


@pytest.mark.parametrize("by_variable", [False, True])
def test_run_reads_the_file_that_a_flag_or_a_variable_names(
    app: types.SimpleNamespace, tmp_path: Path, *, by_variable: bool
) -> None:
    """Flags override the file."""
    file = written(tmp_path, "upstream: {bootstrap_servers: [a:1]}\nlisten: {address: '::1'}\n")
    if by_variable:
        invoke("run", "--listen", ":3000", SLUICE_CONFIG=str(file))
    else:
        invoke("run", "--config", file, "--listen", ":3000")
    (config,) = app.ran
    assert (config.listen.address, config.listen.port) == ("::1", 3000)
