"""The settings of telemetry and of the admin server."""

import pytest

from policies.validation import try_convert
from proxy.config import Config
from proxy.config.telemetry import (
    MAX_ADMIN_CONNECTIONS,
    AdminSettings,
    MetricsSettings,
    TracesSettings,
    UsageLogSettings,
)

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}


def problems_of(**sections: object) -> list[str]:
    value, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


def test_by_default_nothing_is_exported_or_written() -> None:
    """No port is opened and no disk is filled. The admin socket is in a private folder of the user."""
    admin, traces, usage_log = AdminSettings(), TracesSettings(), UsageLogSettings()
    assert (admin.listen, admin.socket, admin.control) == ("", "auto", "")
    assert not admin.is_served
    assert (traces.file, traces.sample_every_requests) == ("", 0)
    assert (usage_log.directory, usage_log.topic) == ("", "")
    assert not MetricsSettings().otlp


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("traces", {"export": "jaeger"}),
        ("traces", {"sample_every_requests": -1}),
        ("traces", {"max_spans_per_second": 0}),
        ("traces", {"max_file_bytes": 1}),
        ("metrics", {"max_users": 1001}),
        ("usage_log", {"families": []}),
        ("usage_log", {"families": ["entity", "node"]}),
        ("usage_log", {"rotate_ms": 999}),
        ("usage_log", {"rotate_bytes": 4095}),
        ("usage_log", {"keep_bytes": 65535}),
        ("usage_log", {"max_capture_seconds": 0}),
        ("admin", {"allowed_hosts": "all"}),
    ],
    ids=lambda part: part if isinstance(part, str) else next(iter(part)),
)
def test_an_invalid_value_is_refused_with_its_path(section: str, value: dict) -> None:
    """One error gives one problem."""
    (problem,) = problems_of(**{section: value})
    (key,) = value
    assert problem.startswith(f"{section}.{key}")


@pytest.mark.parametrize(
    ("admin", "path", "words"),
    [
        ({"listen": "9644"}, "admin.listen", "HOST:PORT"),
        ({"listen": "[::x]:9644"}, "admin.listen", "HOST:PORT"),
        ({"control": "localhost:port", "token_file": "t"}, "admin.control", "HOST:PORT"),
        ({"control": "127.0.0.1:9645"}, "admin.token_file", "because control is set"),
        ({"socket": "/" + "é" * 54}, "admin.socket", "109 bytes, expected at most 107"),
        ({"trace_url": "javascript:alert(1)"}, "admin.trace_url", "http://"),
        (
            {"listen": "0.0.0.0:9644", "control": "0.0.0.0:9644", "token_file": "t"},
            "admin.control",
            "another address than listen",
        ),
    ],
)
def test_an_inconsistent_admin_server_is_refused(admin: dict, path: str, words: str) -> None:
    """The problem has the path of the key and is found before any port is bound."""
    (problem,) = problems_of(admin=admin)
    assert problem.startswith(f"{path}: ")
    assert words in problem


@pytest.mark.parametrize(
    "admin",
    [
        {"listen": "0.0.0.0:9644", "socket": "/" + "a" * 106},
        {"listen": "[::]:9644", "control": "[::1]:9645", "token_file": "t"},
        {
            "trace_url": "https://traces/{trace_id}",
            "token_file": "t",
            "allowed_hosts": ["sluice.example"],
        },
    ],
)
def test_a_consistent_admin_server_is_accepted(admin: dict) -> None:
    """Each of its three listeners may be used alone, or none."""
    assert problems_of(admin=admin) == []


def test_each_listener_of_the_admin_server_needs_descriptors() -> None:
    """A server without listeners needs none."""
    assert AdminSettings(socket="none").max_connections() == 0
    assert AdminSettings().max_connections() == MAX_ADMIN_CONNECTIONS
    assert AdminSettings(listen="h:1", socket="/s").max_connections() == 2 * MAX_ADMIN_CONNECTIONS


@pytest.mark.parametrize(
    ("text", "path", "is_auto"),
    [("auto", "", True), ("none", "", False), ("", "", False), ("/run/s", "/run/s", False)],
)
def test_the_admin_socket_is_the_default_one_a_path_or_none(
    text: str,
    path: str,
    is_auto: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    """The setting is one of two words or a path."""
    admin = AdminSettings(socket=text)
    assert (admin.socket_path, admin.is_auto) == (path, is_auto)
