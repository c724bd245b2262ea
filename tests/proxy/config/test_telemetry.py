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
