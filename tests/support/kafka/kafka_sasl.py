"""The listener of a real Kafka that requires authentication: SASL_PLAINTEXT beside the plain one.

PLAIN and both SCRAM mechanisms know the same users; OAUTHBEARER takes any token that is not signed (Kafka's own
default, for tests only). `lifetimes_ms` makes a mechanism's sessions end unless the client
authenticates again (KIP-368); without it the broker refuses any second authentication. Delegation tokens are on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_256: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
SCRAMS: Final = (SCRAM_256, SCRAM_512)
MECHANISMS: Final = (PLAIN, *SCRAMS)
"""Those with names and passwords."""
OAUTH: Final = "OAUTHBEARER"
LISTENER: Final = "SASL_PLAINTEXT"
ITERATIONS: Final = 4096
TOKENS: Final = "delegation.token.secret.key=of-this-test-only"
"""Delegation tokens are on: by one, a broker tells a client its principal."""
MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SCRAM_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTH: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def usual_users() -> dict[str, str]:
    """Name to password."""
    return {name: f"{name}-secret" for name in ("alice", "bob", "admin")}


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The settings of the brokers' SASL listener."""

    users: dict[str, str] = field(default_factory=usual_users)
    lifetimes_ms: dict[str, int] = field(default_factory=dict)
    """Mechanism to `connections.max.reauth.ms`."""

    @property
    def protocols(self) -> dict[str, str]:
        """Listener name to security protocol."""
        return {LISTENER: LISTENER}

    def properties(self, host: str) -> Iterator[str]:
        """Yield the lines of the server.properties of the broker at `host`."""
        del host
        yield from self.of_listener(LISTENER)
        yield TOKENS

    def of_listener(self, name: str) -> Iterator[str]:
        """Yield the lines that let the listener `name` authenticate clients."""
        prefix = f"listener.name.{name.lower()}"
        own_token = 'unsecuredLoginStringClaim_sub="broker"'  # noqa: S105 - not a secret, the token is unsigned
        known = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        yield f"{prefix}.sasl.enabled.mechanisms={','.join((*MECHANISMS, OAUTH))}"
        yield f"{prefix}.plain.sasl.jaas.config={MODULES[PLAIN]} required {known};"
        for each in SCRAMS:
            yield f"{prefix}.{each.lower()}.sasl.jaas.config={MODULES[each]} required;"
        yield f"{prefix}.oauthbearer.sasl.jaas.config={MODULES[OAUTH]} required {own_token};"
        for each, lifetime_ms in self.lifetimes_ms.items():
            yield f"{prefix}.{each.lower()}.connections.max.reauth.ms={lifetime_ms}"

    def format_arguments(self) -> Iterable[str]:
        """Return the arguments of `kafka-storage format` that create the SCRAM users before the first start."""
        for mechanism in SCRAMS:
            for name, password in self.users.items():
                yield "--add-scram"
                yield f"{mechanism}=[name={name},password={password},iterations={ITERATIONS}]"
