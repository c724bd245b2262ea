"""The precedence of flags, variables, the file and the defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policies.validation import Problem, SettingsError
from proxy.config import Config
from proxy.config.security import ListenTls, UpstreamTls
from proxy.config.sources import load

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.yaml"))
FILE = """\
upstream:
  bootstrap_servers: [a:1, b:2]
listen:
  port: 1000
  nodes: 0-3
policies:
  - use: limits
    config:
      forbidden_apis: [DeleteTopics]
"""
UPSTREAM = {"upstream.bootstrap_servers": ("a:1", "--upstream")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(FILE, "utf-8")
    return path


def refused(
    file: Path | None = None,
    environ: dict[str, str] | None = None,
    flags: dict[str, tuple[str, str]] | None = None,
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(file, environ or {}, UPSTREAM if flags is None else flags)
    return [str(each).replace(str(file), "F") for each in caught.value.problems]


def test_the_full_example_shows_every_setting_with_its_default() -> None:
    """examples/sluice.yaml has each setting with its default, except upstream and policies."""
    (full,) = (path for path in EXAMPLES if path.name == "sluice.yaml")
    effective = load(full, {}, {})
    unsaid = [
        path for path, origin in effective.origins.items() if not origin.startswith(str(full))
    ]
    assert unsaid == []
    default = Config(upstream=effective.config.upstream, policies=effective.config.policies)
    assert effective.config == default


def test_the_comments_of_the_full_example_show_every_optional_section(tmp_path: Path) -> None:
    """Without the comment marks it has each setting of the sections of TLS and SASL, and is valid."""
    (full,) = (path for path in EXAMPLES if path.name == "sluice.yaml")
    shown = re.sub(
        r"^  (tls|sasl|proxy_protocol): null.*\n", "", full.read_text("utf-8"), flags=re.MULTILINE
    )
    file = tmp_path / "all.yaml"
    file.write_text(re.sub(r"^  # ", "  ", shown, flags=re.MULTILINE), "utf-8")
    origins = load(file, {}, {}).origins
    assert [path for path, origin in origins.items() if not origin.startswith(str(file))] == []
    assert {"upstream.tls.verify", "upstream.sasl.scope", "listen.tls.sni_pattern"} <= set(origins)


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(file: Path) -> None:
    """Each value has the source that it came from."""
    environ = {
        "SLUICE_LISTEN_PORT": "2000",
        "SLUICE_LISTEN_NODES": "7",
        "SLUICE_LOG_LEVEL": "debug",
    }
    effective = load(file, environ, {"listen.port": ("3000", "--listen")})
    config, origins = effective.config, effective.origins
    assert (config.listen.port, origins["listen.port"]) == (3000, "--listen")
    assert (config.listen.node_ids(), origins["listen.nodes"]) == ((7,), "SLUICE_LISTEN_NODES")
    assert (config.log.level, origins["log.level"]) == ("debug", "SLUICE_LOG_LEVEL")
    assert origins["upstream.bootstrap_servers"] == f"{file}:2"
    assert origins["policies[0].config.forbidden_apis"] == f"{file}:9"
    assert origins["policies[0].mode"] == "default"
    assert origins["policies[0].name"] == "default: use"
    assert origins["listen.advertised_host"] == "default: listen.address"
    assert origins["drain.timeout_ms"] == "default"


def test_a_password_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """The nearest key is the one that names a file; neither message nor hint shows the value."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "upstream:\n  bootstrap_servers: [a:1]\n"
        "  sasl: {mechanism: PLAIN, username: u, password: canary-41}\n"
    )
    (text,) = refused(file, {"SLUICE_UPSTREAM_SASL_PASWORD": "canary-42"}, {})
    assert text.startswith("upstream.sasl.password (F:3): found an unknown key, expected a key: ")
    assert text.endswith("did you mean password_file?")
    known = {"SLUICE_UPSTREAM_SASL_PASSWORD": "canary-43"}
    assert load(None, known, UPSTREAM).hints == ()
    (hint,) = load(None, {"SLUICE_UPSTREAM_SASL_PASWORD": "canary-42"}, UPSTREAM).hints
    assert hint.endswith("did you mean SLUICE_UPSTREAM_SASL_PASSWORD?")
    assert "canary" not in text + hint


def test_a_list_is_replaced_whole(file: Path) -> None:
    """Nothing of the file's list is left, nor of its origins."""
    effective = load(file, {"SLUICE_UPSTREAM_BOOTSTRAP_SERVERS": "c:3, d:4,e:5"}, {})
    assert effective.config.upstream.bootstrap_servers == ("c:3", "d:4", "e:5")
    places = {path: at for path, at in effective.origins.items() if "servers" in path}
    assert set(places.values()) == {"SLUICE_UPSTREAM_BOOTSTRAP_SERVERS"}


@pytest.mark.parametrize(("text", "on"), [("true", True), (" True ", True), ("false", False)])
def test_a_yes_or_no_is_spelt_as_in_yaml(text: str, *, on: bool) -> None:
    """No other spelling is accepted."""
    assert load(None, {"SLUICE_METRICS_OTLP": text}, UPSTREAM).config.metrics.otlp is on
    assert refused(None, {"SLUICE_METRICS_OTLP": "yes"}) == [
        "metrics.otlp (SLUICE_METRICS_OTLP): found 'yes', expected true or false"
    ]


def test_a_variable_creates_its_optional_section(tmp_path: Path) -> None:
    """So it does if the file has the section as null, and a key that is missing there names the variable."""
    file = tmp_path / "s.yaml"
    file.write_text("upstream: {bootstrap_servers: [a:1], tls: null}\nlisten: {tls: }\n", "utf-8")
    effective = load(file, {"SLUICE_UPSTREAM_TLS_CA_FILE": "ca.pem"}, {})
    assert effective.config.upstream.tls == UpstreamTls(ca_file="ca.pem")
    assert effective.origins["upstream.tls"] == "SLUICE_UPSTREAM_TLS_CA_FILE"
    assert effective.origins["upstream.tls.verify"] == "default"
    assert effective.config.listen.tls is None
    assert effective.origins["listen.tls"] == f"{file}:2"
    (text,) = refused(file, {"SLUICE_LISTEN_TLS_CERT_FILE": "c"}, {})
    assert text.startswith(
        "listen.tls.key_file (SLUICE_LISTEN_TLS_CERT_FILE): found nothing, expected"
    )


def test_a_variable_joins_the_section_of_the_file(tmp_path: Path) -> None:
    """The other settings keep their values and their lines."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "upstream:\n  bootstrap_servers: [a:1]\n  tls:\n    ca_file: a\n    verify: true\n", "utf-8"
    )
    effective = load(file, {"SLUICE_UPSTREAM_TLS_VERIFY": "false"}, {})
    assert effective.config.upstream.tls == UpstreamTls(ca_file="a", verify=False)
    assert effective.origins["upstream.tls.ca_file"] == f"{file}:4"
    assert effective.origins["upstream.tls.verify"] == "SLUICE_UPSTREAM_TLS_VERIFY"


def test_rules_with_a_comma_inside_are_told_apart_in_a_variable() -> None:
    """A comma separates two rules only before RULE: or DEFAULT."""
    environ = {
        "SLUICE_LISTEN_TLS_CERT_FILE": "c",
        "SLUICE_LISTEN_TLS_KEY_FILE": "k",
        "SLUICE_LISTEN_TLS_PRINCIPAL_FROM": "uri_san",
        "SLUICE_LISTEN_TLS_PRINCIPAL_RULES": "RULE:^CN=([^,+]+),.*$/$1/L, DEFAULT",
    }
    tls = load(None, environ, UPSTREAM).config.listen.tls
    assert tls is not None
    assert tls.principal.rules == ("RULE:^CN=([^,+]+),.*$/$1/L", "DEFAULT")
    assert tls.principal.kind == "uri_san"


def test_a_wrong_setting_hides_no_problem_of_files_beside_it() -> None:
    """`look` gets each section without the settings that are wrong, optional sections too."""
    seen: list[Config] = []

    def look(config: Config) -> list[Problem]:
        seen.append(config)
        return [Problem("upstream.tls.ca_file", "'a'", "a file")]

    environ = {
        "SLUICE_UPSTREAM_TLS_CA_FILE": "a",
        "SLUICE_UPSTREAM_TLS_VERIFY": "maybe",
        "SLUICE_UPSTREAM_SASL_MECHANISM": "NTLM",
        "SLUICE_LISTEN_ADDRESS": "::",
        "SLUICE_LISTEN_TLS_CERT_FILE": "c",
        "SLUICE_LISTEN_TLS_KEY_FILE": "k",
    }
    with pytest.raises(SettingsError) as caught:
        load(None, environ, {}, look)
    assert [each.path for each in caught.value.problems] == [
        "upstream.tls.verify",
        "upstream.sasl.mechanism",
        "upstream.bootstrap_servers",
        "listen.advertised_host",
        "upstream.tls.ca_file",
    ]
    (config,) = seen
    assert config.upstream.tls == UpstreamTls(ca_file="a")
    assert config.upstream.sasl is None
    assert config.listen.tls == ListenTls(cert_file="c", key_file="k")


def test_an_empty_variable_is_not_set() -> None:
    """Templates leave empty variables, which must change nothing."""
    assert load(None, {"SLUICE_LISTEN_PORT": ""}, UPSTREAM) == load(None, {}, UPSTREAM)


def test_policies_in_a_variable_are_yaml() -> None:
    """They replace the file's; malformed YAML is reported under the variable's name."""
    effective = load(None, {"SLUICE_POLICIES": "[{use: limits, mode: observe}]"}, UPSTREAM)
    assert effective.config.policies[0].mode == "observe"
    assert effective.origins["policies[0].mode"] == "SLUICE_POLICIES"
    (text,) = refused(None, {"SLUICE_POLICIES": "[{"})
    assert re.match(r"\(SLUICE_POLICIES:\d+:\d+\): this is not YAML", text)


def test_a_misspelt_variable_gets_a_hint() -> None:
    """A variable that Kubernetes makes for a Service gets none."""
    environ = {
        "SLUICE_LISTEN_PROT": "1",
        "SLUICE_CONFIG": "x",
        "SLUICE_PORT": "tcp://10.0.0.1:19092",
        "SLUICE_SERVICE_PORT": "19092",
        "SLUICE_PORT_19092_TCP_ADDR": "10.0.0.1",
        "SLUICE_ZZZ": "1",
        "OTHER": "1",
    }
    assert load(None, environ, UPSTREAM).hints == (
        "SLUICE_LISTEN_PROT is not a setting; did you mean SLUICE_LISTEN_PORT?",
    )


def test_a_quota_that_applies_to_no_client_gets_a_hint(tmp_path: Path) -> None:
    """It names the line, and the quota that overrides it."""
    file = tmp_path / "sluice.yaml"
    file.write_text(
        "upstream: {bootstrap_servers: [a:1]}\n"
        "policies:\n"
        "- use: quota\n"
        "  config:\n"
        "    quotas:\n"
        "    - {client_id: noisy, request_rate: 50, producer_byte_rate: 1000}\n"
        "    - {user: <default>, request_rate: 1000}\n"
    )
    (hint,) = load(file, {}, {}).hints
    assert hint.startswith(
        "policies[0].config.quotas[0].request_rate: it holds for no client: the request_rate of "
        "{user: <default>} outranks it"
    )


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
    """Neither the file itself nor a section of it; variables do not hide the error."""
    file = tmp_path / "s.yaml"
    for text, expected in (
        ("listen: 7\n", "listen (F:1): found 7, expected a mapping with address"),
        ("- 1\n", "(F): found a list, expected a mapping with upstream"),
    ):
        file.write_text(text, "utf-8")
        for variable in ("SLUICE_LISTEN_PORT", "SLUICE_LISTEN_TLS_CERT_FILE", "SLUICE_POLICIES"):
            (problem, *_) = refused(file, {variable: "77"})
            assert problem.startswith(expected), variable
