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
SASL = UP.rstrip("}\n") + ", sasl: {mechanism: "
BEARER = UP + "listen: {sasl: {mechanisms: [OAUTHBEARER], oauthbearer: "
SIGNED = BEARER + "{jwks: f, issuer: i, audience: [a], "
SECTION = "listen.sasl.oauthbearer"
LIMITS = POLICY + "limits\n  config: "
FORWARD = "PLAIN, username: u, forward_credential_apis:"
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
    (UP + "listen: {sasl: {users_file: u, mechanisms: [SCRAM]}}\n", "listen.sasl.mechanisms[0]", 2, "one of OAUTH"),
    (UP + "listen: {sasl: {users_file: u, max_reauth_ms: 1h}}\n", "listen.sasl.max_reauth_ms", 2, "3600000?"),
    (UPSTREAM + "  tls: {cert_file: a}\n", "upstream.tls.key_file", 3, "cert_file is set"),
    (UPSTREAM + "  sasl: {mechanism: SCRAM}\n", "upstream.sasl.mechanism", 3, "one of"),
    (
        UPSTREAM + "  sasl: {mechanism: OAUTHBEARER, client_id: c, token_endpoint_url: 'http://idp/t'}\n",
        "upstream.sasl.token_endpoint_url", 3, "expected https://",
    ),
    (UPSTREAM + "  sasl: {mechanism: PLAIN}\n", "upstream.sasl.username", 3, "a user"),
    (UP + "listen: {sasl: {mechanisms: [PLAIN]}}\n", "listen.sasl.users_file", 2, "a file, for PLAIN"),
    (BEARER + "null}}\n", "listen.sasl.oauthbearer", 2, "a section, for OAUTHBEARER"),
    (BEARER + "{issuer: i, audience: [a]}}}\n", f"{SECTION}.jwks", 2, "a file or an https address"),
    (BEARER + "{jwks: f, audience: [a]}}}\n", f"{SECTION}.issuer", 2, "the claim iss"),
    (BEARER + "{jwks: f, issuer: i}}}\n", f"{SECTION}.audience", 2, "or accept_any_audience: true"),
    (BEARER + "{jwks: 'http://idp/k', issuer: i, audience: [a]}}}\n", f"{SECTION}.jwks", 2, "https://HOST"),
    (SIGNED + "algorithms: [none]}}}\n", f"{SECTION}.algorithms[0]", 2, "found 'none'"),
    (SIGNED + "algorithms: [HS256]}}}\n", f"{SECTION}.algorithms[0]", 2, "found 'HS256'"),
    (SIGNED + "principal_rules: ['RULE:('] }}}\n", f"{SECTION}.principal_rules[0]", 2, "RULE:("),
    (BEARER + "{jwks: f, accept_unsigned_tokens: true}}}\n", f"{SECTION}.jwks", 2, "nothing, because"),
    (SIGNED + "jwks_ca_file: c}}}\n", f"{SECTION}.jwks_ca_file", 2, "no address"),
    (BEARER + "{accept_unsigned_tokens: true}, users_file: u}}\n", "listen.sasl.users_file", 2, "OAUTHBEARER alone"),
    (UP + "memory: {queued_max_requests: 0}\n", "memory.queued_max_requests", 2, "-1 (no bound) or 1..2147483647"),
    (UP + "memory: {max_share: 1.5}\n", "memory.max_share", 2, "found 1.5"),
    (UP + "purgatory: {fetch_grace_ms: -1}\n", "purgatory.fetch_grace_ms", 2, "found -1"),
    (UP + "purgatory: {max_wait_ms: 0}\n", "purgatory.max_wait_ms", 2, "found 0"),
    (UP + "identity: {user: 'User:billing'}\n", "identity.user", 2, "did you mean billing?"),
    (UP + "traces: {sample_every_requests: -1}\n", "traces.sample_every_requests", 2, "found -1"),
    (UP + "traces: {max_spans_per_second: 0}\n", "traces.max_spans_per_second", 2, "found 0"),
    (UP + "traces: {max_file_bytes: 1}\n", "traces.max_file_bytes", 2, "found 1"),
    (UP + "metrics: {max_users: 1001}\n", "metrics.max_users", 2, "found 1001"),
    (UP + "usage_log: {rotate_ms: 999}\n", "usage_log.rotate_ms", 2, "found 999"),
    (UP + "usage_log: {rotate_bytes: 4095}\n", "usage_log.rotate_bytes", 2, "found 4095"),
    (UP + "usage_log: {keep_bytes: 65535}\n", "usage_log.keep_bytes", 2, "found 65535"),
    (UP + "usage_log: {max_capture_seconds: 0}\n", "usage_log.max_capture_seconds", 2, "found 0"),
    (UP + "admin: {allowed_hosts: all}\n", "admin.allowed_hosts", 2, "a list"),
    (UP + "admin: {listen: '[::x]:9644'}\n", "admin.listen", 2, "HOST:PORT"),
    (UP + "admin: {control: 'a:port', token_file: t}\n", "admin.control", 2, "HOST:PORT"),
    (UP + f"admin: {{socket: '/{'é' * 54}'}}\n", "admin.socket", 2, "109 bytes, expected at most 107"),
    (UP + "admin: {listen: 'a:1', control: 'a:1', token_file: t}\n", "admin.control", 2, "another address than listen"),
    (UPSTREAM + "  tls: {key_file: k}\n", "upstream.tls.cert_file", 3, "key_file is set"),
    (SASL + "OAUTHBEARER}}\n", "upstream.sasl.token_file", 1, "one of token_file, token_endpoint_url, token_provider"),
    (SASL + "OAUTHBEARER, token_file: t, token_provider: p}}\n", "upstream.sasl.token_file", 1, "token_provider, exp"),
    (SASL + "OAUTHBEARER, token_endpoint_url: 'https://a'}}\n", "upstream.sasl.client_id", 1, "expected the client id"),
    (SASL + "PLAIN, username: u, scope: s}}\n", "upstream.sasl.scope", 1, "nothing, because mechanism is PLAIN"),
    (SASL + "OAUTHBEARER, token_file: t, password_file: p}}\n", "upstream.sasl.password_file", 1, "is OAUTHBEARER"),
    (SASL + "OAUTHBEARER, token_file: t, client_id: c}}\n", "upstream.sasl.client_id", 1, "endpoint_url is not set"),
    (SASL + "OAUTHBEARER, token_file: t, token_options: {a: 1}}}\n", "upstream.sasl.token_options", 1,
     "because token_provider is not set"),
    (SASL + "PLAIN, username: u, token_provider: p}}\n", "upstream.sasl.token_provider", 1, "mechanism is PLAIN"),
    (SASL + f"{FORWARD} [DescribeAcl]}}}}\n", "upstream.sasl.forward_credential_apis[0]", 1, "mean DescribeAcls?"),
    (SASL + f"{FORWARD} [Produce]}}}}\n", "upstream.sasl.forward_credential_apis[0]", 1, "an API that is refused by"),
    (SASL + f"{FORWARD} []}}, tls: {{cert_file: c, key_file: k, forward_credential_apis: [DescribeAcls]}}}}\n",
     "upstream.tls.forward_credential_apis", 1, "upstream.sasl, whose forward_credential_apis counts"),
    (UPSTREAM + "  tls: {forward_credential_apis: [DescribeAcls]}\n", "upstream.tls.forward_credential_apis", 3,
     "without cert_file"),
    (TLS + "principal: {rules: [DEFAULT, 'RULE:^CN=(.*$/$1/']}}}\n", "listen.tls.principal.rules[1]", 2, "missing )"),
    (TLS + "principal: {rules: []}}}\n", "listen.tls.principal.rules", 2, "not empty"),
    (TLS + "principal: {from: san}}}\n", "listen.tls.principal.from", 2, "did you mean uri_san?"),
    (TLS + "principal: {kind: subject}}}\n", "listen.tls.principal.kind", 2, "expected a key: from, rules"),
    (UP + "listen: {sasl: {}}\n", "listen.sasl.users_file", 2, "found nothing"),
    (POLICY + "limits\n  name: credential_guard\n", "policies[0].name", 4, "another name"),
    (POLICY + "policies.audit:Audit\n", "policies[0].use", 3, "without audit.file"),
    ("- 1\n", "", 0, "found a list, expected a mapping with upstream, listen, identity"),
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
