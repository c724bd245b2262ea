"""Files with one error each, and one file with many.

Each message names the key's path, the line, the expected value, and the nearest valid key or value where one is near.
"""

from pathlib import Path

import pytest

from policies.validation import SettingsError
from proxy.config.sources import load

UP = "upstream: {bootstrap_servers: [a:1]}\n"
UPSTREAM = "upstream:\n  bootstrap_servers: [a:1]\n"
TLS = UP + "listen: {tls: {cert_file: c, key_file: k, "
POLICY = UP + "policies:\n- use: "
LIMITS = POLICY + "limits\n  config: "
QUOTAS = POLICY + "quota\n  config:\n    quotas:\n    - "

# (the file, the key's path, its line, words of the message)
FILES: tuple[tuple[str, str, int, str], ...] = (
    ("log: {level: info}\n", "upstream.bootstrap_servers", 0, "found nothing"),
    ("upstream: {bootstrap_servers: []}\n", "upstream.bootstrap_servers", 1, "not empty"),
    ("upstream: {bootstrap_servers: a:1}\n", "upstream.bootstrap_servers", 1, "a list"),
    ("upstream: {bootstrap_servers: [a]}\n", "upstream.bootstrap_servers[0]", 1, "HOST:PORT"),
    ("upstream: {bootstrap_servers: ['a:70000']}\n", "upstream.bootstrap_servers[0]", 1, "65535"),
    ("upstream: [a:1]\n", "upstream", 1, "a mapping"),
    ("upstreem: {bootstrap_servers: [a:1]}\n", "upstreem", 1, "did you mean upstream?"),
    (UP + "listen: {port: '19092'}\n", "listen.port", 2, "an integer from 1 to 65535"),
    (UP + "listen: {port: 65530}\n", "listen.port", 2, "so that every node has a port"),
    (UP + "listen: {prot: 1}\n", "listen.prot", 2, "did you mean port?"),
    (UP + "listen: {nodes: 3-1}\n", "listen.nodes", 2, "found '3-1'"),
    (UP + "listen: {address: ''}\n", "listen.address", 2, "a host name or an IP address"),
    (UP + "listen: {address: 0.0.0.0}\n", "listen.advertised_host", 2, "a host that clients can connect to"),
    (UP + "listen: {address: a, advertised_host: 0.0.0.0}\n", "listen.advertised_host", 2, "can connect"),
    (UP + "listen: {port: ${PORT}}\n", "", 2, "this is not YAML"),
    (UP + "listen: {port: '${PORT}'}\n", "listen.port", 2, "expands no variables"),
    (UP + "log: {level: warn}\n", "log.level", 2, "did you mean warning?"),
    (UP + "log: debug\n", "log", 2, "a mapping with"),
    (UP + "drain: {timeout_ms: 30s}\n", "drain.timeout_ms", 2, "did you mean 30000?"),
    (UP + "drain: {timeout_ms: 1.5}\n", "drain.timeout_ms", 2, "an integer"),
    (UP + "memory: {queued_max_request_bytes: 100MB}\n", "memory.queued_max_request_bytes", 2, "104857600?"),
    (UP + "memory: {queued_max_request_bytes: -2}\n", "memory.queued_max_request_bytes", 2, "found -2"),
    (UP + "purgatory: {max_wait_ms: 2 min}\n", "purgatory.max_wait_ms", 2, "did you mean 120000?"),
    (UP + "admin: {listen: 9644}\n", "admin.listen", 2, "found 9644"),
    (UP + "admin: {listen: localhost}\n", "admin.listen", 2, "HOST:PORT"),
    (UP + "admin: {listen: '127.0.0.1:19093'}\n", "admin.listen", 2, "which clients connect to"),
    (UP + "admin: {control: '127.0.0.1:1'}\n", "admin.token_file", 2, "because control is set"),
    (UP + "admin: {trace_url: jaeger}\n", "admin.trace_url", 2, "http:// or https://"),
    (UP + "traces: {export: jaeger}\n", "traces.export", 2, "one of auto, file, none, otlp"),
    (UP + "traces: {slow_ms: 1h}\n", "traces.slow_ms", 2, "did you mean 3600000?"),
    (UP + "usage_log: {families: [entities]}\n", "usage_log.families[0]", 2, "did you mean entity?"),
    (UP + "usage_log: {families: []}\n", "usage_log.families", 2, "not empty"),
    (UP + "identity: {user: ''}\nidentity: {user: a}\n", "identity", 3, "each key once (it is also on line 2)"),
    (UP + "pass_unknown_apis: [Fetch]\n", "pass_unknown_apis[0]", 2, "outside the table"),
    (UP + "pass_unknown_apis: [Fech]\n", "pass_unknown_apis[0]", 2, "found 'Fech'"),
    (UP + "policies: quota\n", "policies", 2, "a list"),
    (UP + "policies:\n- quota\n", "policies[0]", 3, "a mapping with"),
    (UP + "policies:\n- {mode: enforce}\n", "policies[0].use", 3, "found nothing"),
    (POLICY + "quotas\n", "policies[0].use", 3, "did you mean quota?"),
    (POLICY + "quota\n  mode: watch\n", "policies[0].mode", 4, "one of enforce, observe"),
    (POLICY + "quota\n- use: quota\n", "policies[1].name", 4, "a name of its own"),
    (POLICY + "quota\n  config: {quota: []}\n", "policies[0].config.quota", 4, "did you mean quotas?"),
    (QUOTAS + "{user: a}\n", "policies[0].config.quotas[0]", 6, "at least one of request_rate"),
    (QUOTAS + "{request_rate: 1}\n", "policies[0].config.quotas[0]", 6, "user, client_id, or both"),
    (QUOTAS + "{user: a, request_rate: 0}\n", "policies[0].config.quotas[0].request_rate", 6, "greater than 0"),
    (QUOTAS + "{user: a, request_rate: 1.0e+13}\n", "policies[0].config.quotas[0].request_rate", 6, "at most"),
    (QUOTAS + "{user: a, producer_byte_rate: 1.5}\n", "policies[0].config.quotas[0].producer_byte_rate", 6, "whole"),
    (LIMITS + "{required_acks: most}\n", "policies[0].config.required_acks", 4, "found 'most'"),
    (LIMITS + "{forbidden_apis: [DeleteTopic]}\n", "policies[0].config.forbidden_apis[0]", 4, "DeleteTopics?"),
    (UP + "listen:\n  tls:\n    cert_file: c\n", "listen.tls.key_file", 3, "a text that is not empty"),
    (UP + "listen: {tls: true}\n", "listen.tls", 2, "a mapping with cert_file"),
    (TLS + "client_auth: require}}\n", "listen.tls.client_auth", 2, "required?"),
    (TLS + "client_auth: required}}\n", "listen.tls.client_ca_file", 2, "because"),
    (TLS + "sni_pattern: kafka.a.com}}\n", "listen.tls.sni_pattern", 2, "with $(node) in it once"),
    (UPSTREAM + "  tls: {server_name: 'a:1'}\n", "upstream.tls.server_name", 3, "a host name or an IP address"),
    (UP + "listen: {sasl: {users_file: u, mechanisms: [SCRAM]}}\n", "listen.sasl.mechanisms[0]", 2, "one of PLAIN"),
    (UP + "listen: {sasl: {users_file: u, max_reauth_ms: 1h}}\n", "listen.sasl.max_reauth_ms", 2, "3600000?"),
    (UPSTREAM + "  tls: {cert_file: a}\n", "upstream.tls.key_file", 3, "cert_file is set"),
    (UPSTREAM + "  sasl: {mechanism: SCRAM}\n", "upstream.sasl.mechanism", 3, "one of"),
    (
        UPSTREAM + "  sasl: {mechanism: OAUTHBEARER, client_id: c, token_endpoint_url: 'http://idp/t'}\n",
        "upstream.sasl.token_endpoint_url", 3, "expected https://",
    ),
    (UPSTREAM + "  sasl: {mechanism: PLAIN}\n", "upstream.sasl.username", 3, "a user"),
    (UP + "\tlog: {}\n", "", 2, "a tab cannot indent YAML"),
    (UP + "log: {level: info\n", "", 3, "this is not YAML"),
)  # fmt: skip


def problems_of(text: str, folder: Path) -> str:
    """Return the message for a file with this text."""
    file = folder / "sluice.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load(file, {}, {})
    return str(caught.value)


def test_the_error_of_a_file_has_its_key_its_line_and_a_valid_value(tmp_path: Path) -> None:
    """One error gives one problem."""
    for text, path, line, words in FILES:
        (problem, *more) = [
            each for each in problems_of(text, tmp_path).splitlines() if not each.startswith("    ")
        ]
        assert more == [], text
        assert problem.startswith(f"{path} (" if path else "(") or not line, text
        assert path in problem, text
        assert words in problem, text
        if line:
            assert f"sluice.yaml:{line}" in problem, text


def test_all_errors_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    """An error hides none in another section, nor in the next policy."""
    answer = problems_of(
        """\
upstream: {bootstrap_servers: [a], socket_connection_setup_timeout_ms: 10s}
listen: {prot: 1}
log: {level: warn}
memory: {max_share: 2}
admin: {listen: localhost}
usage_log: {families: [entities]}
policies:
- {use: quotas}
- {use: quota, mode: watch, config: {quotas: [{user: a, request_rat: 1}]}}
- {use: limits, config: {required_acks: most}}
""",
        tmp_path,
    )
    assert [each.split(" (")[0] for each in answer.splitlines()] == [
        "upstream.bootstrap_servers[0]",
        "upstream.socket_connection_setup_timeout_ms",
        "listen.prot",
        "log.level",
        "memory.max_share",
        "admin.listen",
        "usage_log.families[0]",
        "policies[1].mode",
        "policies[0].use",
        "policies[1].config.quotas[0].request_rat",
        "policies[2].config.required_acks",
    ]
