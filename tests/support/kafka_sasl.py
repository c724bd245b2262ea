"""The listener of a real Kafka that requires authentication: SASL_PLAINTEXT beside the plain one.

PLAIN and both SCRAM mechanisms know the same users; OAUTHBEARER takes any token that is not signed (Kafka's own
default, for tests only). `lifetimes_ms` makes a mechanism's sessions end unless the client
authenticates again (KIP-368); without it the broker refuses any second authentication. Delegation tokens are on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN: Final = "PLAIN"
SCRAM_256: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
SCRAMS: Final = (SCRAM_256, SCRAM_512)
MECHANISMS: Final = (PLAIN, *SCRAMS)
"""Those with names and passwords."""
OAUTH: Final = "OAUTHBEARER"
LISTENER: Final = "SASL_PLAINTEXT"
ITERATIONS: Final = 4096
_MODULES: Final = {
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

    def properties(self) -> str:
        """The lines of server.properties."""
        prefix = f"listener.name.{LISTENER.lower()}"
        own_token = 'unsecuredLoginStringClaim_sub="broker"'  # noqa: S105 - not a secret, the token is unsigned
        known = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:{LISTENER}"
        lines = [
            f"listener.security.protocol.map={protocols}",
            f"{prefix}.sasl.enabled.mechanisms={','.join((*MECHANISMS, OAUTH))}",
            f"{prefix}.plain.sasl.jaas.config={_MODULES[PLAIN]} required {known};",
            *(
                f"{prefix}.{each.lower()}.sasl.jaas.config={_MODULES[each]} required;"
                for each in SCRAMS
            ),
            f"{prefix}.oauthbearer.sasl.jaas.config={_MODULES[OAUTH]} required {own_token};",
            *(
                f"{prefix}.{each.lower()}.connections.max.reauth.ms={lifetime_ms}"
                for each, lifetime_ms in self.lifetimes_ms.items()
            ),
            "delegation.token.secret.key=of-this-test-only",
        ]
        return "\n".join(lines) + "\n"

    def format_arguments(self) -> Iterable[str]:
        """Return the arguments of `kafka-storage format` that create the SCRAM users before the first start."""
        for mechanism in SCRAMS:
            for name, password in self.users.items():
                yield "--add-scram"
                yield f"{mechanism}=[name={name},password={password},iterations={ITERATIONS}]"


def java_properties(mechanism: str, user: str, password: str, more: str = "") -> dict[str, str]:
    """A Java client's configuration; `more` goes behind the login module's options."""
    login = f'{_MODULES[mechanism]} required username="{user}" password="{password}" {more};'
    return {
        "security.protocol": LISTENER,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
    }


def librdkafka_config(mechanism: str, user: str, password: str) -> dict[str, str]:
    """A librdkafka client's configuration."""
    return {
        "security.protocol": LISTENER,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def kafka_python_config(mechanism: str, user: str, password: str) -> dict[str, str]:
    """A kafka-python client's configuration."""
    return {
        "security_protocol": LISTENER,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
