"""The settings of clients' logins at Sluice itself, `listen.sasl`: by password, and by token (OAUTHBEARER).

- Whatever makes a check of tokens weaker has a name that says so, and is off by default.
- Issuer, audience and keys must be given: a token of another service of the same provider is no login here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from policies.type_names import describe_value
from policies.validation import Problem
from proxy.config.security import rule_mistakes
from proxy.config.values import Milliseconds, PositiveMilliseconds, check_jwks

if TYPE_CHECKING:
    from collections.abc import Iterator

ServerMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""How clients can authenticate to Sluice."""
TokenAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""How a token may be signed: never with a shared secret, and never not at all."""


class ListenOAuthBearer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The check of clients' tokens (JWT): whose keys sign them, for whom they are, and how they name the user."""

    jwks: Annotated[
        str,
        Meta(
            description="The public keys of the identity provider (a JSON Web Key Set): a file, read again when it "
            "changes, or an https address (Kafka: sasl.oauthbearer.jwks.endpoint.url).",
            examples=["https://login.example.com/.well-known/jwks.json"],
            extra={"check": check_jwks},
        ),
    ] = ""
    jwks_ca_file: Annotated[
        str,
        Meta(
            description="Certificates (PEM) that sign that of the address in `jwks`. Empty = the system's."
        ),
    ] = ""
    jwks_token_file: Annotated[
        str, Meta(description="File with a token for the address in `jwks`, if that asks for one.")
    ] = ""
    jwks_refresh_ms: Annotated[
        PositiveMilliseconds,
        Meta(
            description="How often the address in `jwks` is asked (Kafka: sasl.oauthbearer.jwks.endpoint.refresh.ms). "
            "A token with an unknown key has it asked at once, at most every 10 seconds."
        ),
    ] = 3_600_000
    jwks_max_stale_ms: Annotated[
        PositiveMilliseconds,
        Meta(
            description="How long the keys are used that could not be read again. After that no token is accepted."
        ),
    ] = 86_400_000
    issuer: Annotated[
        str,
        Meta(
            description="Claim `iss` that a token must have (Kafka: sasl.oauthbearer.expected.issuer).",
            examples=["https://login.example.com/"],
        ),
    ] = ""
    audience: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            description="Claims `aud`, of which a token must have one (Kafka: sasl.oauthbearer.expected.audience).",
            examples=["kafka"],
        ),
    ] = ()
    accept_any_audience: Annotated[
        bool,
        Meta(
            description="Whether tokens for any audience are accepted, also those for other services of the issuer."
        ),
    ] = False
    algorithms: Annotated[
        tuple[TokenAlgorithm, ...], Meta(min_length=1, description="How tokens may be signed.")
    ] = ("RS256", "PS256", "ES256")
    clock_skew_ms: Annotated[
        Annotated[int, Meta(ge=0, le=600_000)],
        Meta(
            description="How much the clocks of the issuer and of Sluice may differ (Kafka: "
            "sasl.oauthbearer.clock.skew.seconds)."
        ),
    ] = 30_000
    principal_claim: Annotated[
        str,
        Meta(
            min_length=1,
            description="Claim that names the user (Kafka: sasl.oauthbearer.sub.claim.name); a path of names if it "
            "begins with / (RFC 6901).",
        ),
    ] = "sub"
    principal_rules: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="Rules from that claim to the user, as those of `listen.tls.principal`. A token that none "
            "matches is refused.",
            examples=["RULE:^system:serviceaccount:([^:]+):([^:]+)$/$1.$2/"],
            extra={"separator": r",\s*(?=RULE:|DEFAULT)"},
        ),
    ] = ("DEFAULT",)
    groups_claim: Annotated[
        str,
        Meta(
            description="Claim with the user's groups, which rules know as `team:`; a path of names if it begins with "
            "/. Empty = none is read.",
            examples=["groups", "/realm_access/roles"],
        ),
    ] = ""
    accept_unsigned_tokens: Annotated[
        bool,
        Meta(
            description="INSECURE, for tests of applications: accept tokens that nobody has signed (alg `none`), so "
            "that any client can be any user. Signed ones are refused then."
        ),
    ] = False

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each setting that is missing, has no effect, or cannot be used."""
        if self.accept_unsigned_tokens:
            if self.jwks:
                words = "nothing, because accept_unsigned_tokens is true"
                yield Problem("jwks", describe_value(self.jwks), words)
        else:
            if not self.jwks:
                yield Problem("jwks", "nothing", "a file or an https address with the public keys")
            if not self.issuer:
                yield Problem("issuer", "nothing", "the claim iss of the tokens")
            if not self.audience and not self.accept_any_audience:
                words = "at least one, or accept_any_audience: true"
                yield Problem("audience", "nothing", words)
        if self.audience and self.accept_any_audience:
            words = "nothing, because accept_any_audience is true"
            yield Problem("audience", describe_value(list(self.audience)), words)
        if "://" not in self.jwks:
            for key in ("jwks_ca_file", "jwks_token_file"):
                if value := getattr(self, key):
                    words = "nothing, because jwks is no address"
                    yield Problem(key, describe_value(value), words)
        yield from rule_mistakes("principal_rules", self.principal_rules)


class ListenSasl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Authentication of clients by Sluice itself. Nothing but ApiVersions is answered before it succeeds."""

    users_file: Annotated[
        str,
        Meta(
            description="Users and their salted, hashed passwords, for PLAIN and SCRAM; `sluice users add` writes it.",
        ),
    ] = ""
    mechanisms: Annotated[
        tuple[ServerMechanism, ...],
        Meta(
            min_length=1,
            description="How clients may authenticate (Kafka: sasl.enabled.mechanisms).",
        ),
    ] = ("SCRAM-SHA-512",)
    max_reauth_ms: Annotated[
        Milliseconds,
        Meta(
            description="How long an authentication holds until the client must authenticate again (Kafka: "
            "connections.max.reauth.ms). 0 = as long as the connection. One by a token ends with the token at the "
            "latest."
        ),
    ] = 0
    oauthbearer: Annotated[
        ListenOAuthBearer | None, Meta(description="The check of tokens, for OAUTHBEARER.")
    ] = None

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for what the mechanisms need and is missing, and for what they do not use."""
        by_password = [each for each in self.mechanisms if each != "OAUTHBEARER"]
        by_token = len(by_password) < len(self.mechanisms)
        if by_password and not self.users_file:
            yield Problem("users_file", "nothing", f"a file, for {', '.join(by_password)}")
        if self.users_file and not by_password:
            words = "nothing, because mechanisms is OAUTHBEARER alone"
            yield Problem("users_file", describe_value(self.users_file), words)
        if by_token and self.oauthbearer is None:
            yield Problem("oauthbearer", "nothing", "a section, for OAUTHBEARER")
        if self.oauthbearer is not None and not by_token:
            words = "nothing, because mechanisms does not name OAUTHBEARER"
            yield Problem("oauthbearer", "a section", words)
