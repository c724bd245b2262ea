"""The JSON Schema and the loader accept the same files."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from policies.discovery import available
from policies.validation import try_convert
from proxy.config import Config
from proxy.config.json_schema import json_schema

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.yaml"))
UPSTREAM = "upstream: {bootstrap_servers: [a:1]}\n"


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    made = json.loads(json.dumps(json_schema(available())))
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_fits_the_schema(
    schema: jsonschema.Draft202012Validator, example: Path
) -> None:
    """The files in `examples` are valid by the schema."""
    schema.validate(yaml.safe_load(example.read_text("utf-8")))


@pytest.mark.parametrize(
    "text",
    [
        UPSTREAM,
        "upstream: {bootstrap_servers: ['[::1]:9092'], request_timeout_ms: 0}\n",
        UPSTREAM + "listen: {nodes: 7}\n",
        UPSTREAM + "listen: {nodes: '0-2, 10-12', advertised_host: s}\n",
        UPSTREAM + "policies: [{use: limits, config: {required_acks: all}}]\n",
        UPSTREAM + "pass_unknown_apis: [Vote, 32767]\n",
        UPSTREAM + "purgatory: {produce_grace_ms: -500, fetch_grace_ms: 0}\n",
        UPSTREAM + "listen: {tls: {cert_file: c, key_file: k}, sasl: null}\n",
        "upstream: {bootstrap_servers: [a:1], tls: {}, sasl: {mechanism: PLAIN, username: u}}\n",
    ],
)
def test_valid_files_fit_the_schema(schema: jsonschema.Draft202012Validator, text: str) -> None:
    """Both the loader and the schema accept them."""
    data = yaml.safe_load(text)
    assert try_convert(Config, data)[1] == []
    schema.validate(data)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "upstream: {bootstrap_servers: []}",
        "upstream: {bootstrap_servers: a:1}",
        "upstream: {bootstrap_servers: [a:65536]}",
        UPSTREAM + "upstrem: {}",
        UPSTREAM + "listen: {port: 0}",
        UPSTREAM + "listen: {nodes: a-b}",
        UPSTREAM + "listen:",
        UPSTREAM + "drain: {timeout_ms: 1.5}",
        UPSTREAM + "identity: billing",
        UPSTREAM + "log: {level: loud}",
        UPSTREAM + "policies: [{name: x}]",
        UPSTREAM + "policies: [{use: limits, config: 1}]",
        UPSTREAM + "pass_unknown_apis: [70000]",
        UPSTREAM + "pass_unknown_apis: [true]",
        UPSTREAM + "listen: {tls: {cert_file: c, key_file: k, ca: a}}",
        UPSTREAM + "listen: {sasl: {users_file: u, mechanisms: [GSSAPI]}}",
    ],
)
def test_invalid_files_do_not_fit_the_schema(
    schema: jsonschema.Draft202012Validator, text: str
) -> None:
    """Both the loader and the schema refuse them."""
    data = yaml.safe_load(text)
    assert try_convert(Config, data)[1]
    assert not schema.is_valid(data)


def test_the_schema_has_each_policys_own_settings(schema: jsonschema.Draft202012Validator) -> None:
    """Under `use: limits` the settings are those of `limits`; settings of another policy are refused."""
    bad = UPSTREAM + "policies: [{use: limits, config: {forbiden_apis: []}}]"
    strange = UPSTREAM + "policies: [{use: strange, config: {forbiden_apis: []}}]"
    assert not schema.is_valid(yaml.safe_load(bad))
    assert schema.is_valid(yaml.safe_load(strange))
