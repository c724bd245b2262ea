"""The printed configuration."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.registry import PolicyEntry
from policies.yaml_text import read_yaml
from proxy.config import Config
from proxy.config.sources import Effective, load
from proxy.config.text import render
from proxy.config.upstream import UpstreamSettings

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_printed_configuration_can_be_loaded_again(example: Path, tmp_path: Path) -> None:
    """The configuration that is loaded equals the one that was printed."""
    effective = load(example, {}, {})
    again = tmp_path / "again.yaml"
    again.write_text(render(effective), "utf-8")
    assert load(again, {}, {}).config == effective.config


def test_each_value_is_printed_with_its_origin() -> None:
    """A line has one value, its origin in a comment; items of the chain are told apart."""
    flags = {"upstream.bootstrap_servers": ("a:1,b:2", "--upstream")}
    environ = {"SLUICE_POLICIES": "[{use: limits, config: {forbidden_apis: [Vote]}}]"}
    lines = render(load(None, environ, flags)).splitlines()
    said = {tuple(part.strip() for part in line.split("#")) for line in lines}
    assert ("bootstrap_servers: ['a:1', 'b:2']", "--upstream") in said
    assert ("port: 19092", "default") in said
    assert ("advertised_host: 127.0.0.1", "default: listen.address") in said
    assert ("- use: limits", "SLUICE_POLICIES") in said
    assert ("mode: enforce", "default") in said
    assert ("forbidden_apis: [Vote]", "SLUICE_POLICIES") in said
    assert ("pass_unknown_apis: []", "default") in said


def test_an_optional_section_is_printed_with_its_keys_or_as_null(tmp_path: Path) -> None:
    """Both forms can be loaded again."""
    flags = {"upstream.bootstrap_servers": ("a:1", "--upstream")}
    effective = load(None, {"SLUICE_UPSTREAM_TLS_CA_FILE": "ca.pem"}, flags)
    lines = [
        tuple(part.strip() for part in line.split("#")) for line in render(effective).splitlines()
    ]
    at = lines.index(("tls:",))
    assert lines[at + 1] == ("ca_file: ca.pem", "SLUICE_UPSTREAM_TLS_CA_FILE")
    assert ("server_name: null", "default") in lines[at:]
    assert ("sasl: null", "default") in lines
    again = tmp_path / "again.yaml"
    again.write_text(render(effective), "utf-8")
    assert load(again, {}, {}).config == effective.config


texts = st.text(max_size=30)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)  # a busy machine must not fail the test
@given(chosen=st.dictionaries(texts, plain, max_size=4))
def test_any_settings_of_a_policy_are_read_back_unchanged(chosen: dict[str, object]) -> None:
    """This holds for all plain data."""
    entry = PolicyEntry(use="x", config=chosen)
    config = Config(upstream=UpstreamSettings(bootstrap_servers=("a:1",)), policies=(entry,))
    data, _, problems = read_yaml(render(Effective(config, {})), "f")
    assert problems == []
    assert isinstance(data, dict)
    assert data["policies"][0]["config"] == chosen
