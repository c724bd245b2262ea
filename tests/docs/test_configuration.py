"""The page on configuration: every setting is there, with the default it has and what may change live."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from proxy.app import App
from proxy.config.sources import load, variables
from proxy.config.telemetry import Traces
from proxy.dynamic_config import dynamic_settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text("utf-8")
UPSTREAM = {"upstream.bootstrap_servers": ("kafka:9092", "--upstream")}
ROWS = {
    key: (variable, default)
    for key, variable, default in re.findall(
        r"^\| `([\w.]+)` \| `(SLUICE_\w+)` \| ([^|]+) \| \S.* \|$", PAGE, re.MULTILINE
    )
}
OTHERWISE = {
    "upstream.bootstrap_servers": "required",
    "listen.advertised_host": "`listen.address`",
    "usage_log.instance": "the host's name",
}
"""Defaults that are no value."""


def shown(value: object) -> str:
    """A default, as the page writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "none"


def test_every_setting_is_on_the_page_with_its_variable() -> None:
    """And nothing is there that is none."""
    assert {key: variable for key, (variable, _) in ROWS.items()} == {
        each.path: name for name, each in variables().items()
    }


@pytest.mark.parametrize("key", [each.path for each in variables().values()])
def test_a_default_is_the_one_that_holds(key: str) -> None:
    """What the page says is what a Sluice has that is told nothing."""
    value: object = load(None, {}, UPSTREAM).config
    for name in key.split("."):
        value = getattr(value, name)
    assert ROWS[key][1] == OTHERWISE.get(key, shown(value))


def test_what_may_change_live_is_listed(tmp_path: Path) -> None:
    """The page lists every setting that may change live, and no other."""
    part = PAGE.partition("## Changing it while it runs")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("- ")]
    listed = {key for line in lines for key in re.findall(r"`([\w.]+)`", line)}
    config = load(None, {}, UPSTREAM).config
    traces = Traces(export="file", file=str(tmp_path / "traces.jsonl"))
    app = App(msgspec.structs.replace(config, traces=traces))
    try:
        live = dynamic_settings(app._engine, app._acceptor, 1, app._observers.tracer)
        assert listed == {"policies", *live}
    finally:
        app._hub.close()
        app._observers.close()
