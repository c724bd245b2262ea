"""The environment variables: each setting has one, and it takes effect."""

import msgspec

from proxy.config.client_logins import ListenOAuthBearer, ListenSasl
from proxy.config.sections import ListenProxyProtocol
from proxy.config.security import ListenPrincipal, ListenTls, UpstreamSasl, UpstreamTls
from proxy.config.sources import load, variables

UPSTREAM = {"upstream.bootstrap_servers": ("a:1", "--upstream")}
ENDPOINT = tuple(
    f"SLUICE_UPSTREAM_SASL_{key}"
    for key in ("TOKEN_ENDPOINT_URL", "CLIENT_ID", "CLIENT_SECRET_FILE", "SCOPE")
)
BEARER = "SLUICE_LISTEN_SASL_OAUTHBEARER_"


def test_every_setting_has_a_variable() -> None:
    """Each field of each section has one, optional sections included, and each list at the top level."""
    sections = {
        "upstream.tls": UpstreamTls,
        "upstream.sasl": UpstreamSasl,
        "listen.tls": ListenTls,
        "listen.tls.principal": ListenPrincipal,
        "listen.proxy_protocol": ListenProxyProtocol,
        "listen.sasl": ListenSasl,
        "listen.sasl.oauthbearer": ListenOAuthBearer,
    }
    config = load(None, {}, UPSTREAM).config
    paths = {each.path for each in variables().values()}
    expected = {
        f"{path}.{key}" for path, kind in sections.items() for key in kind.__struct_encode_fields__
    }
    for section, value in msgspec.structs.asdict(config).items():
        fields = value.__struct_fields__ if isinstance(value, msgspec.Struct) else ()
        expected |= {f"{section}.{field}" for field in fields} or {section}
    assert paths == expected - set(sections)
    assert len(variables()) == len(paths)
    assert "SLUICE_UPSTREAM_BOOTSTRAP_SERVERS" in variables()
    assert variables()["SLUICE_LISTEN_TLS_CERT_FILE"].path == "listen.tls.cert_file"


def test_every_variable_takes_effect() -> None:
    """Each variable alone changes its setting to a value other than the default."""
    texts = {
        "SLUICE_UPSTREAM_BOOTSTRAP_SERVERS": "z:9",
        "SLUICE_LISTEN_ADDRESS": "::1",
        "SLUICE_LISTEN_NODES": "1-2,5",
        "SLUICE_LISTEN_ADVERTISED_HOST": "proxy",
        "SLUICE_LOG_LEVEL": "error",
        "SLUICE_LOG_FORMAT": "json",
        "SLUICE_POLICIES": "[{use: limits, name: x}]",
        "SLUICE_PASS_UNKNOWN_APIS": "1234,Vote",
        "SLUICE_METRICS_OTLP": "true",
        "SLUICE_TRACES_EXPORT": "none",
        "SLUICE_USAGE_LOG_FAMILIES": "entity,capture",
        "SLUICE_USAGE_LOG_ROTATE_MS": "7777",
        "SLUICE_MEMORY_MAX_SHARE": "0.5",
        **dict.fromkeys(("SLUICE_ADMIN_LISTEN", "SLUICE_ADMIN_CONTROL"), "a:1"),
        "SLUICE_ADMIN_TRACE_URL": "http://a/{trace_id}",
        "SLUICE_LISTEN_TLS_PRINCIPAL_FROM": "dns_san",
        "SLUICE_LISTEN_PROXY_PROTOCOL_FROM": "10.0.0.0/8",
        "SLUICE_LISTEN_TLS_PRINCIPAL_RULES": "RULE:CN=(.*)/$1/U,DEFAULT",
        "SLUICE_LISTEN_TLS_CLOSE_ON_EXPIRY": "false",
        "SLUICE_UPSTREAM_TLS_VERIFY": "false",
        "SLUICE_UPSTREAM_TLS_FORWARD_CREDENTIAL_APIS": "DescribeAcls,CreateAcls",
        "SLUICE_UPSTREAM_SASL_FORWARD_CREDENTIAL_APIS": "DescribeAcls,CreateAcls",
        "SLUICE_UPSTREAM_SASL_MECHANISM": "PLAIN",
        "SLUICE_UPSTREAM_SASL_TOKEN_ENDPOINT_URL": "https://a/b",
        "SLUICE_UPSTREAM_SASL_TOKEN_OPTIONS": "{region: eu-west-1}",
        "SLUICE_LISTEN_TLS_CLIENT_AUTH": "requested",
        "SLUICE_LISTEN_TLS_SNI_PATTERN": "b-$(node).a",
        "SLUICE_LISTEN_SASL_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        f"{BEARER}ALGORITHMS": "ES384,EdDSA",
        f"{BEARER}ACCEPT_ANY_AUDIENCE": "true",
        f"{BEARER}ACCEPT_UNSIGNED_TOKENS": "true",
        f"{BEARER}PRINCIPAL_RULES": "RULE:^(.*)$/$1/U,DEFAULT",
        f"{BEARER}JWKS": "https://b/k",
    }
    required = {
        "SLUICE_ADMIN_CONTROL": {"SLUICE_ADMIN_TOKEN_FILE": "t"},
        "SLUICE_UPSTREAM_TLS_CERT_FILE": {"SLUICE_UPSTREAM_TLS_KEY_FILE": "k"},
        "SLUICE_UPSTREAM_TLS_KEY_FILE": {"SLUICE_UPSTREAM_TLS_CERT_FILE": "c"},
        "SLUICE_UPSTREAM_TLS_FORWARD": {
            "SLUICE_UPSTREAM_TLS_CERT_FILE": "c",
            "SLUICE_UPSTREAM_TLS_KEY_FILE": "k",
        },
        "SLUICE_UPSTREAM_SASL_": {
            "SLUICE_UPSTREAM_SASL_MECHANISM": "SCRAM-SHA-256",
            "SLUICE_UPSTREAM_SASL_USERNAME": "u",
        },
        "SLUICE_UPSTREAM_SASL_TOKEN_": {
            "SLUICE_UPSTREAM_SASL_MECHANISM": "OAUTHBEARER",
            "SLUICE_UPSTREAM_SASL_USERNAME": "",
        },
        "SLUICE_UPSTREAM_SASL_TOKEN_OPTIONS": {"SLUICE_UPSTREAM_SASL_TOKEN_PROVIDER": "p"},
        **{
            name: {
                "SLUICE_UPSTREAM_SASL_MECHANISM": "OAUTHBEARER",
                "SLUICE_UPSTREAM_SASL_USERNAME": "",
                "SLUICE_UPSTREAM_SASL_TOKEN_ENDPOINT_URL": "https://c/d",
                "SLUICE_UPSTREAM_SASL_CLIENT_ID": "c",
            }
            for name in ENDPOINT
        },
        "SLUICE_LISTEN_TLS_": {
            "SLUICE_LISTEN_TLS_CERT_FILE": "c",
            "SLUICE_LISTEN_TLS_KEY_FILE": "k",
            "SLUICE_LISTEN_TLS_CLIENT_CA_FILE": "a",
        },
        "SLUICE_LISTEN_TLS_SNI": {"SLUICE_LISTEN_ADVERTISED_HOST": "a"},
        "SLUICE_LISTEN_SASL_": {"SLUICE_LISTEN_SASL_USERS_FILE": "u"},
        BEARER: {
            "SLUICE_LISTEN_SASL_MECHANISMS": "PLAIN,OAUTHBEARER",
            f"{BEARER}JWKS": "https://a/k",
            f"{BEARER}ISSUER": "i",
            f"{BEARER}AUDIENCE": "a",
        },
        f"{BEARER}ACCEPT_ANY": {f"{BEARER}AUDIENCE": ""},
        f"{BEARER}ACCEPT_UNSIGNED": {f"{BEARER}JWKS": ""},
    }
    """By the beginning of a variable's name, which others it needs."""
    before = load(None, {}, UPSTREAM)
    for name, variable in variables().items():
        flags = {} if name == "SLUICE_UPSTREAM_BOOTSTRAP_SERVERS" else UPSTREAM
        needed: dict[str, str] = {}
        for start, others in required.items():
            needed |= others if name.startswith(start) else {}
        usual = "77777" if name.endswith("_BYTES") else "77"
        after = load(None, {**needed, name: texts.get(name, usual)}, flags)
        assert after.config != before.config, name
        assert after.origins[variable.path] == name
