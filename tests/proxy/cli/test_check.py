"""`sluice check`: what it finds, and with which exit code it ends."""

import json
import types
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proxy.config import budget
from proxy.config.container import MemoryLimit
from tests.support.processes.command_line import invoke, written
from tests.support.shell.certificates import Authority
from tests.support.shell.token_issuer import IdentityProvider


def test_check_accepts_a_file_or_names_every_error(tmp_path: Path) -> None:
    """The exit code is 0 or 1; errors in a policy's own settings are included."""
    good = invoke("check", "--config", written(tmp_path, "upstream: {bootstrap_servers: [a:1]}"))
    assert good.exit_code == 0
    assert good.stdout.startswith("The settings are valid; policies: 0.\nMemory, at most:\n")
    text = "listen: {prot: 1}\npolicies: [{use: limits, config: {forbiden_apis: []}}]\n"
    bad = invoke("check", "--config", written(tmp_path, text))
    assert bad.exit_code == 1
    assert bad.stderr.count("\n") == 4
    assert "did you mean port?" in bad.stderr
    assert "did you mean forbidden_apis?" in bad.stderr


def test_check_opens_the_files_of_tls_and_tells_what_needs_care(tmp_path: Path) -> None:
    """A problem has the key, the line and the file; a certificate that ends soon is a hint, and the exit code is 0."""
    authority = Authority(tmp_path)
    text = "upstream:\n  bootstrap_servers: [a:1]\n  tls: {{}}\nlisten:\n  tls:\n    cert_file: {}\n    key_file: {}\n"
    missing = invoke("check", "--config", written(tmp_path, text.format("gone", "gone")))
    assert missing.exit_code == 1
    assert "listen.tls.cert_file (" in missing.stderr
    assert (
        ":6): found 'gone': No such file or directory, expected certificates (PEM)"
        in missing.stderr
    )
    end = datetime.now(UTC) + timedelta(days=2, hours=1)
    pair = authority.issue("127.0.0.1", not_after=end)
    pair.key_file.chmod(0o600)
    file = written(tmp_path, text.format(pair.cert_file, pair.key_file))
    valid = invoke("check", "--config", file)
    assert valid.exit_code == 0
    (hint,) = valid.stderr.splitlines()
    assert hint.startswith("hint: listen.tls.cert_file: the certificate of ")
    assert hint.endswith("in 2 days")
    assert json.loads(invoke("check", "--config", file, "--json").stdout)["hints"] == [
        hint.removeprefix("hint: ")
    ]


def test_a_configuration_that_exceeds_its_container_is_refused_with_the_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`check` ends with 1, `run` with 2; both list the terms of the sum."""
    limit = MemoryLimit(128 << 20, "memory.max")
    monkeypatch.setattr(budget, "memory_limit", lambda: limit)
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
def test_check_connect_dials_the_bootstrap_servers(servers: str, code: int) -> None:
    """Each server is reported; one that cannot be reached makes the exit code 1."""
    result = invoke("check", "--upstream", servers, "--connect", "--nodes", "0-40")
    assert result.exit_code == code
    assert "a:1: a Kafka broker; it names 2 brokers\n" in result.stdout
    assert "  broker 1 at kafka-1:9092: port 19094 here\n" in result.stdout
    assert ("dead:1: refused\n" in result.stderr) == bool(code)


@pytest.mark.usefixtures("app")
def test_check_connect_fails_for_a_broker_without_a_port() -> None:
    """The partitions that it leads never work, though Sluice starts and all else does."""
    result = invoke("check", "--upstream", "a:1", "--connect", "--nodes", "0-31")
    assert result.exit_code == 1
    assert "  broker 40 at kafka-40:9092: no port here" in result.stdout
    assert result.stderr.endswith(
        "listen.nodes: widen it, so that each broker has a port; these have none: 40\n"
    )


@pytest.mark.usefixtures("app")
def test_check_connect_asks_for_the_keys_of_tokens() -> None:
    """It says how many keys there are, or why there are none; that makes the exit code 1."""
    asked = ("check", "--upstream", "a:1", "--connect", "--nodes", "0-40")
    with IdentityProvider("ES256", "RS256") as provider:
        url = provider.url("/keys")
        variables = {
            "SLUICE_LISTEN_SASL_MECHANISMS": "OAUTHBEARER",
            "SLUICE_LISTEN_SASL_OAUTHBEARER_JWKS": url,
            "SLUICE_LISTEN_SASL_OAUTHBEARER_ISSUER": "https://idp",
            "SLUICE_LISTEN_SASL_OAUTHBEARER_AUDIENCE": "kafka",
        }
        result = invoke(*asked, **variables)
        assert result.exit_code == 0
        assert f"listen.sasl.oauthbearer.jwks: {url}: 2 keys\n" in result.stdout
        provider.status = 404
        result = invoke(*asked, **variables)
    assert result.exit_code == 1
    assert result.stderr.endswith(f"listen.sasl.oauthbearer.jwks: {url}: HTTP status 404\n")


def test_check_prints_the_same_problems_as_json(tmp_path: Path) -> None:
    """The output is one object, for editors and CI; the exit code is the same."""
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
def test_check_and_run_refuse_the_same_files_and_name_every_error_at_once(
    command: str, code: int, tmp_path: Path, app: types.SimpleNamespace
) -> None:
    """Errors in types, files, folders, variables, ports, a policy's mode and its config are covered."""
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
