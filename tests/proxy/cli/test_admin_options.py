"""The choice of the admin server: by options, by the environment, by the configuration."""

import json

import click
import pytest
from click.testing import CliRunner

from proxy.admin import default_socket
from proxy.admin.client import AdminAddress
from proxy.cli import admin_options


@pytest.fixture
def asked(monkeypatch):
    """Return a function that runs a command which prints the place it would ask."""
    for name in ("SOCKET", "CONTROL", "TOKEN_FILE"):
        monkeypatch.delenv(f"SLUICE_ADMIN_{name}", raising=False)
    monkeypatch.delenv("SLUICE_CONFIG", raising=False)

    @click.command()
    @admin_options.with_admin_client
    def where(client) -> None:
        click.echo(json.dumps(client.place))

    def run(*arguments: str, env: dict[str, str] | None = None):
        result = CliRunner().invoke(where, arguments, env=env)
        return AdminAddress(*json.loads(result.output)) if result.exit_code == 0 else result

    return run


@pytest.fixture
def token(tmp_path):
    file = tmp_path / "token"
    file.write_text("abc\n")
    return str(file)


def test_a_socket_or_an_address_with_its_token(asked, token):
    """A socket has priority over an address."""
    assert asked("--socket", "s") == AdminAddress(path="s")
    where = asked("--address", "h:1", "--token-file", token)
    assert where == AdminAddress(address="h:1", token="abc")  # noqa: S106 - a test's own
    assert asked("--socket", "s", "--address", "h:1").path == "s"


def test_the_environment_of_a_container_names_the_server(asked, token):
    """The variables are those that configure the proxy."""
    assert asked(env={"SLUICE_ADMIN_SOCKET": "s"}) == AdminAddress(path="s")
    env = {"SLUICE_ADMIN_CONTROL": "h:1", "SLUICE_ADMIN_TOKEN_FILE": token}
    assert asked(env=env).address == "h:1"


def test_the_configuration_names_the_server(asked, tmp_path, token):
    """Options have priority over it."""
    file = tmp_path / "sluice.yaml"
    settings = {"upstream": {"bootstrap_servers": ["kafka:9092"]}, "admin": {"socket": "s"}}
    file.write_text(json.dumps(settings))
    assert asked("-c", str(file)) == AdminAddress(path="s")
    assert asked("-c", str(file), "--socket", "t").path == "t"
    settings["admin"] = {"control": "127.0.0.1:9645", "token_file": token}
    file.write_text(json.dumps(settings))
    assert asked("-c", str(file)) == AdminAddress(address="127.0.0.1:9645", token="abc")  # noqa: S106 - a test's own


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--address", "h:1"), "needs --token-file"),
        (("--address", "h:1", "--token-file", "none"), "cannot be read"),
        (("-c", "none.yaml"), "cannot be used"),
    ],
)
def test_options_that_cannot_be_used_are_refused(asked, arguments, words):
    """The exit code is 2."""
    result = asked(*arguments)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("content", ["", "two words", "a: secret\nb: another", "é"])
def test_a_file_that_is_no_token_is_not_shown(asked, tmp_path, content):
    """The option may name the wrong file, and its content may be a secret."""
    file = tmp_path / "wrong"
    file.write_text(content)
    result = asked("--address", "h:1", "--token-file", str(file))
    assert result.exit_code == 2
    assert "does not hold a token" in result.output
    assert not content or content not in result.output


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """Set a folder of this test for default sockets."""
    monkeypatch.setattr(default_socket, "ROOT_FOLDER", tmp_path / "none" / "sluice")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_without_options_the_sluice_on_this_machine_is_asked(asked, runtime, tmp_path):
    """It is found by its default socket; with a configuration, by the socket of that port."""
    file = tmp_path / "sluice.yaml"
    settings = {"upstream": {"bootstrap_servers": ["kafka:9092"]}, "listen": {"port": 7}}
    file.write_text(json.dumps(settings))
    one = default_socket.listen(7, runtime)
    try:
        for given in ((), ("--socket", "auto"), ("-c", str(file))):
            assert asked(*given) == AdminAddress(path=one.path)
        other = default_socket.listen(8, runtime)
        try:
            result = asked()
            assert result.exit_code == 2
            assert "Several Sluices run here" in result.output
            assert one.path in result.output
            assert other.path in result.output
            assert asked("-c", str(file)) == AdminAddress(path=one.path)
        finally:
            other.close()
    finally:
        one.close()


def test_without_a_running_sluice_the_error_names_the_places_tried(asked, runtime, tmp_path):
    """The exit code is 1; the error says what to do, and whether the settings switch the socket off."""
    result = asked()
    assert result.exit_code == 1
    assert f"No Sluice of this user answers in {tmp_path}/sluice or " in result.output
    assert "start `sluice run`" in result.output
    result = asked("--socket", "none")
    assert result.exit_code == 2
    assert "admin.socket is none" in result.output
