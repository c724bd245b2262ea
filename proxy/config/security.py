"""The settings of TLS, below `listen` and `upstream`, and of SASL to the brokers.

- A section that is absent is off: no `tls` is a plain connection, no `upstream.sasl` passes the client's own
  authentication to the brokers. `listen.sasl` is in `client_logins`.
- A secret is never a value of the file: a setting names the file that has it, or an environment variable has it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policies.type_names import describe_value
from policies.validation import Problem
from proxy.config.values import (
    SNI_WORDS,
    ForwardedApis,
    check_host,
    check_sni_pattern,
    check_token_url,
    check_user,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ClientMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""How Sluice can authenticate to brokers."""
_PASSWORD_KEYS: Final = ("username", "password_file")
_TOKEN_SOURCES: Final = ("token_file", "token_endpoint_url", "token_provider")
_KEYS_OF_SOURCES: Final = {
    "token_endpoint_url": ("client_id", "client_secret_file", "scope"),
    "token_provider": ("token_options",),
}
_TOKEN_KEYS: Final = (*_TOKEN_SOURCES, *chain.from_iterable(_KEYS_OF_SOURCES.values()))


class UpstreamTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TLS to the brokers. All settings are optional: `{}` verifies the brokers with the system's certificates."""

    ca_file: Annotated[
        str,
        Meta(
            description="Certificates (PEM) that sign the brokers' certificates (Kafka: ssl.truststore.location). "
            "Empty = the system's."
        ),
    ] = ""
    cert_file: Annotated[
        str,
        Meta(
            description="Sluice's own certificate chain (PEM) for brokers that ask for one (Kafka: "
            "ssl.keystore.location)."
        ),
    ] = ""
    key_file: Annotated[
        str, Meta(description="The private key (PEM, not encrypted) of `cert_file`.")
    ] = ""
    server_name: Annotated[
        Annotated[str, Meta(extra={"check": check_host})] | None,
        Meta(
            description="Name that the brokers' certificates must have, if it is not the host that is dialled."
        ),
    ] = None
    verify: Annotated[
        bool,
        Meta(
            description="Whether the certificate and its name are verified (Kafka: "
            "ssl.endpoint.identification.algorithm). false = a server in between can read and change the traffic."
        ),
    ] = True
    forward_credential_apis: ForwardedApis = ()

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a certificate without its key, or a key without its certificate."""
        for missing, other in (("key_file", "cert_file"), ("cert_file", "key_file")):
            if getattr(self, other) and not getattr(self, missing):
                yield Problem(missing, "nothing", f"a file, because {other} is set")


class UpstreamSasl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Credentials by which Sluice itself authenticates to the brokers, for all clients (credential custody)."""

    mechanism: Annotated[
        ClientMechanism, Meta(description="How to authenticate (Kafka: sasl.mechanism).")
    ]
    username: Annotated[
        str, Meta(description="User of PLAIN and SCRAM.", extra={"check": check_user})
    ] = ""
    password_file: Annotated[
        str,
        Meta(
            description="File with the password of PLAIN and SCRAM; a line break at its end is ignored. Empty = the "
            "variable SLUICE_UPSTREAM_SASL_PASSWORD."
        ),
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="File with the token of OAUTHBEARER (Kafka: a file: URL as "
            "sasl.oauthbearer.token.endpoint.url). It is read again before each authentication."
        ),
    ] = ""
    token_endpoint_url: Annotated[
        str,
        Meta(
            description="HTTPS address that gives tokens for client credentials (Kafka: "
            "sasl.oauthbearer.token.endpoint.url).",
            extra={"check": check_token_url},
        ),
    ] = ""
    client_id: Annotated[
        str, Meta(description="Client id for `token_endpoint_url` (Kafka: clientId).")
    ] = ""
    client_secret_file: Annotated[
        str,
        Meta(
            description="File with the client secret for `token_endpoint_url`. Empty = the variable "
            "SLUICE_UPSTREAM_SASL_CLIENT_SECRET."
        ),
    ] = ""
    scope: Annotated[str, Meta(description="Scope of the token (Kafka: scope).")] = ""
    token_provider: Annotated[
        str,
        Meta(
            description="Plug-in that gets the tokens of OAUTHBEARER: aws-msk-iam (the extra `msk`), an installed one, "
            "or MODULE:CLASS (docs/use/custody.md)."
        ),
    ] = ""
    token_options: Annotated[
        dict[str, Annotated[object, Meta(description="The plug-in's own setting.")]],
        Meta(
            description="The plug-in's own settings. A secret is none of them: they name its file."
        ),
    ] = msgspec.field(default_factory=dict)
    forward_credential_apis: ForwardedApis = ()

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each setting that the mechanism needs or does not use."""
        unused: tuple[str, ...] = _TOKEN_KEYS
        used = [key for key in _TOKEN_SOURCES if getattr(self, key)]
        if self.mechanism == "OAUTHBEARER":
            unused = _PASSWORD_KEYS
            if len(used) != 1:
                words = f"one of {', '.join(_TOKEN_SOURCES)}"
                yield Problem("token_file", " and ".join(used) or "nothing", words)
            if self.token_endpoint_url and not self.client_id:
                yield Problem("client_id", "nothing", "the client id for token_endpoint_url")
        elif not self.username:
            yield Problem("username", "nothing", f"a user, because mechanism is {self.mechanism}")
        for key in unused:
            if value := getattr(self, key):
                words = f"nothing, because mechanism is {self.mechanism}"
                yield Problem(key, describe_value(value), words)
        for source, keys in _KEYS_OF_SOURCES.items():
            for key in keys:
                value = getattr(self, key)
                if value and used and source not in used:
                    words = f"nothing, because {source} is not set"
                    yield Problem(key, describe_value(value), words)


def rule_mistakes(path: str, rules: tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem for each rule that cannot be used."""
    from proxy.core.auth.principal_mapping import MappingRuleError, PrincipalMapper  # noqa: PLC0415 - only where used

    for place, rule in enumerate(rules):
        try:
            PrincipalMapper((rule,))
        except MappingRuleError as error:
            yield Problem(f"{path}[{place}]", str(error))


class ListenPrincipal(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"kind": "from"}
):
    """The user of a client that has shown a certificate. One that gives no user, or several, is refused."""

    kind: Annotated[
        Literal["subject", "uri_san", "dns_san"],
        Meta(
            description="Part of the certificate that gives the user: the subject, as Java prints it (RFC 2253), or "
            "alternative names that are URIs (SPIFFE) or DNS names."
        ),
    ] = "subject"
    rules: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="Rules from that text to the user (Kafka: ssl.principal.mapping.rules). The first that "
            "matches applies.",
            examples=["RULE:^CN=([^,+]+).*$/$1/L", "DEFAULT"],
            extra={"separator": r",\s*(?=RULE:|DEFAULT)"},  # a pattern may have a comma
        ),
    ] = ("DEFAULT",)

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each rule that cannot be used."""
        yield from rule_mistakes("rules", self.rules)


class ListenTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TLS for clients. Changed files are loaded by a reload; open connections stay."""

    cert_file: Annotated[
        str,
        Meta(min_length=1, description="Certificate chain (PEM) of the listener."),
    ]
    key_file: Annotated[
        str, Meta(min_length=1, description="Private key (PEM, not encrypted) of `cert_file`.")
    ]
    client_ca_file: Annotated[
        str, Meta(description="Certificates (PEM) that sign the clients' certificates.")
    ] = ""
    client_auth: Annotated[
        Literal["none", "requested", "required"],
        Meta(description="Whether clients show a certificate (Kafka: ssl.client.auth)."),
    ] = "none"
    close_on_expiry: Annotated[
        bool,
        Meta(
            description="Whether a connection ends when the certificate of its client does, or one that signs it; "
            "replies that are due are sent. false = only new connections are refused, as Kafka does."
        ),
    ] = True
    sni_pattern: Annotated[
        Annotated[str, Meta(extra={"expected": SNI_WORDS, "check": check_sni_pattern})] | None,
        Meta(
            description="Host name of each broker, with $(node) for its id: one port serves all brokers, and the "
            "name that the client asks for in its TLS handshake selects one. null = a port for each broker.",
            examples=["broker-$(node).kafka.example.com"],
        ),
    ] = None
    principal: Annotated[
        ListenPrincipal, Meta(description="How a client's certificate gives the user.")
    ] = ListenPrincipal()

    def mistakes(self) -> Iterator[Problem]:
        """Yield the settings that do not fit each other."""
        if self.client_auth != "none" and not self.client_ca_file:
            words = f"a file, because client_auth is {self.client_auth}"
            yield Problem("client_ca_file", "nothing", words)
