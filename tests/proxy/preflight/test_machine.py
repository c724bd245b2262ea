"""The preflight finds files, folders and variables that a start would refuse."""

import os
import socket
from pathlib import Path

import pytest

from proxy.config import Config
from proxy.config.sources import load
from proxy.preflight.machine import findings, problems

UPSTREAM = {"upstream.bootstrap_servers": ("a:1", "--upstream")}


def config(**variables: object) -> Config:
    environ = {f"SLUICE_{name}": str(value) for name, value in variables.items()}
    return load(None, environ, UPSTREAM).config


def paths(settings: Config, **environ: str) -> list[str]:
    return [each.path or str(each) for each in problems(settings, environ)]


def test_the_default_settings_are_accepted() -> None:
    """They name no file."""
    assert paths(config()) == []


def test_the_preflight_creates_nothing(tmp_path: Path) -> None:
    """Folders and files that a start creates do not exist afterwards."""
    settings = config(
        USAGE_LOG_DIRECTORY=tmp_path / "new" / "usage-log",
        TRACES_FILE=tmp_path / "traces.jsonl",
        AUDIT_FILE=tmp_path / "audit.jsonl",
        ADMIN_SOCKET=tmp_path / "admin.sock",
    )
    assert paths(settings) == []
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - the names are enough


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("USAGE_LOG_DIRECTORY", "usage_log.directory"),
        ("TRACES_FILE", "traces.file"),
        ("AUDIT_FILE", "audit.file"),
        ("ADMIN_SOCKET", "admin.socket"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_refused(
    variable: str, path: str, tmp_path: Path
) -> None:
    """This holds for every user, root included."""
    (tmp_path / "file").touch()
    assert paths(config(**{variable: tmp_path / "file" / "below"})) == [path]


def test_only_a_socket_may_be_at_the_path_of_a_socket(tmp_path: Path) -> None:
    """A start replaces a dead socket and nothing else."""
    place = tmp_path / "admin.sock"
    place.touch()
    assert paths(config(ADMIN_SOCKET=place)) == ["admin.socket"]
    place.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert paths(config(ADMIN_SOCKET=place)) == []


@pytest.mark.parametrize("content", [None, "short", "two words that are long enough"])
def test_an_unusable_token_is_refused(content: str | None, tmp_path: Path) -> None:
    """It is missing, too short, or longer than a header can be."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    assert paths(config(ADMIN_TOKEN_FILE=file)) == ["admin.token_file"]
    file.write_text("a-token-of-twenty-chars")
    assert paths(config(ADMIN_TOKEN_FILE=file)) == []


def test_every_invalid_variable_of_traces_is_named() -> None:
    """Its value is not printed, because it may be a secret."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "collector",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
        "OTEL_BSP_SCHEDULE_DELAY": "-1",
    }
    found = paths(config(TRACES_EXPORT="otlp"), **environ)
    assert [name for name in environ if any(name in text for text in found)] == list(environ)
    assert not any("collector" in text or "soon" in text for text in found)


def test_variables_of_a_feature_that_is_off_are_not_checked() -> None:
    """They may be meant for another program."""
    assert paths(config(TRACES_EXPORT="none"), OTEL_BSP_SCHEDULE_DELAY="x") == []


def test_files_of_tls_and_sasl_are_checked_with_the_others(tmp_path: Path) -> None:
    """Every problem is found at once, with the key's path; a hint is a text."""
    token = tmp_path / "secret"
    token.write_text("x")
    token.chmod(0o644)
    settings = config(
        UPSTREAM_TLS_CA_FILE=tmp_path / "ca.pem",
        UPSTREAM_SASL_MECHANISM="OAUTHBEARER",
        UPSTREAM_SASL_TOKEN_FILE=token,
        LISTEN_SASL_USERS_FILE=tmp_path / "users",
        ADMIN_TOKEN_FILE=tmp_path / "token",
    )
    found = list(findings(settings, {}, 0.0))
    assert [each.path for each in found if not isinstance(each, str)] == [
        "admin.token_file",
        "upstream.tls.ca_file",
        "listen.sasl.users_file",
    ]
    (hint,) = (each for each in found if isinstance(each, str))
    assert hint.startswith("upstream.sasl.token_file: every user of this machine can read")
