"""Mistakes in the settings of every source are reported together, each under its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.validation import SettingsError
from proxy.config.sources import load

UPSTREAM = {"upstream.bootstrap_servers": ("a:1", "--upstream")}


def refused(
    file: Path | None = None,
    environ: dict[str, str] | None = None,
    flags: dict[str, tuple[str, str]] | None = None,
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(file, environ or {}, UPSTREAM if flags is None else flags)
    return [str(each).replace(str(file), "F") for each in caught.value.problems]


def test_a_value_of_the_wrong_type_is_refused_under_its_source() -> None:
    """A variable that is not a number is named, with the type expected."""
    assert refused(None, {"SLUICE_LISTEN_PORT": "http", "SLUICE_DRAIN_TIMEOUT_MS": "1.5"}) == [
        "listen.port (SLUICE_LISTEN_PORT): found 'http', expected an integer from 1 to 65535",
        (
            "drain.timeout_ms (SLUICE_DRAIN_TIMEOUT_MS): found '1.5', expected an integer from 0 to"
            " 86400000"
        ),
    ]


def test_errors_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    """File, variable, flag and policies' own settings: one list, each with its origin."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "listen:\n  prot: 1\npolicies:\n- 7\n- use: limits\n  config: {required_acks: some}\n"
        "- use: limit\n",
        "utf-8",
    )
    found = refused(file, {"SLUICE_LOG_FORMAT": "jsn"}, {"listen.nodes": ("3-1", "--nodes")})
    assert [text.partition(" found")[0] for text in found] == [
        "listen.prot (F:2):",
        "listen.nodes (--nodes):",
        "policies[0] (F:4):",
        "log.format (SLUICE_LOG_FORMAT):",
        "upstream.bootstrap_servers (F):",
        "policies[1].config.required_acks (F:6):",
        "policies[2].use (F:7):",
    ]


def test_a_file_that_is_not_a_mapping_is_reported(tmp_path: Path) -> None:
    """Variables do not hide the error."""
    file = tmp_path / "s.yaml"
    file.write_text("listen: 7\n", "utf-8")
    (problem, *_) = refused(file, {"SLUICE_LISTEN_PORT": "77"})
    assert problem.startswith("listen (F:1): found 7, expected a mapping with address")
