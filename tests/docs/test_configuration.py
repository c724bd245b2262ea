"""The pages on configuration: every setting with its default, and which may change live."""

import re
from pathlib import Path

import msgspec
import pytest

from proxy.app import App
from proxy.config.sources import load, variables
from proxy.config.telemetry import TracesSettings
from proxy.dynamic_config import LIVE_SETTINGS, dynamic_settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "use" / "configuration.md").read_text("utf-8")
UPSTREAM = {"upstream.bootstrap_servers": ("kafka:9092", "--upstream")}


def test_every_setting_is_on_the_page_with_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated table has a row for each setting: key, meaning, default, allowed values."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "hooks")
    from settings_reference import settings_reference  # noqa: PLC0415 - found only by the path above

    rows = re.findall(
        r"^\| `([\w.]+)` \| \w.* \| ([^|]+) \| [^|]+ \|$",
        settings_reference(),
        re.MULTILINE,
    )

    assert [key for key, _ in rows] == [each.path for each in variables().values()]
    assert dict(rows)["listen.port"] == "19092"
    assert (
        dict(rows)["listen.tls.cert_file"] == dict(rows)["upstream.bootstrap_servers"] == "required"
    )
    assert dict(rows)["listen.tls.client_auth"] == "none"
    assert dict(rows)["upstream.tls.server_name"] == "null"
    assert dict(rows)["listen.advertised_host"] == "`listen.address`"


def test_the_variable_of_a_setting_follows_from_its_key() -> None:
    """docs/use/settings.md gives the rule and no list."""
    for name, each in variables().items():
        assert name == "SLUICE_" + each.path.replace(".", "_").upper()


def test_what_may_change_live_is_listed(tmp_path: Path) -> None:
    """The page and the table name every setting that may change live, and no other."""
    part = PAGE.partition("## Changing it while it runs")[2].partition("\n## ")[0]
    points = re.findall(r"^- .*(?:\n  .*)*", part, re.MULTILINE)
    listed = {key for each in points for key in re.findall(r"`([\w.]+)`", each)}
    config = load(None, {}, UPSTREAM).config
    traces = TracesSettings(export="file", file=str(tmp_path / "traces.jsonl"))
    app = App(msgspec.structs.replace(config, traces=traces))
    try:
        live = dynamic_settings(app._engine, app._acceptor, 1, app._telemetry.tracer)
        assert listed == {"policies", "policies_path", *live} == set(LIVE_SETTINGS)
    finally:
        app._event_loop.close()
        app._telemetry.close()
