"""The listeners of a real Kafka for every security protocol: one broker serves them all.

| listener | protocol | client certificate |
|---|---|---|
| `SASL_PLAINTEXT`, `SASL_SSL` | the mechanisms of `kafka_sasl` | none |
| `SSL` | TLS | none |
| `MTLS` | TLS | required; its common name is the principal |

Keystores are PEM files (Kafka 2.7 and later), of an authority made for the test.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.support.certificates import Authority
from tests.support.kafka_sasl import LISTENER, TOKENS, SaslListener

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = LISTENER
SASL_SSL: Final = "SASL_SSL"
SSL: Final = "SSL"
MTLS: Final = "MTLS"
_COMMON_NAME: Final = "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"


@dataclass(frozen=True, slots=True)
class EveryListener:
    """The listeners of the table above."""

    authority: Authority
    sasl: SaslListener = field(default_factory=SaslListener)

    @property
    def protocols(self) -> dict[str, str]:
        """Listener name to security protocol."""
        return {SASL_PLAINTEXT: SASL_PLAINTEXT, SASL_SSL: SASL_SSL, SSL: SSL, MTLS: SSL}

    def properties(self, host: str) -> Iterator[str]:
        """Yield the lines of the server.properties of the broker at `host`."""
        own = self.authority.issue(host, common_name="broker", file_name=f"broker-{host}")
        for name in (SASL_PLAINTEXT, SASL_SSL):
            yield from self.sasl.of_listener(name)
        for name in (SASL_SSL, SSL, MTLS):
            prefix = f"listener.name.{name.lower()}.ssl"
            yield f"{prefix}.keystore.type=PEM"
            yield f"{prefix}.keystore.location={own.both_file}"
            yield f"{prefix}.truststore.type=PEM"
            yield f"{prefix}.truststore.location={self.authority.ca_file}"
            yield f"{prefix}.client.auth={'required' if name == MTLS else 'none'}"
        yield f"listener.name.mtls.ssl.principal.mapping.rules={_COMMON_NAME}"
        yield TOKENS

    def format_arguments(self) -> Iterable[str]:
        """Return the arguments of `kafka-storage format` that create the SCRAM users."""
        return self.sasl.format_arguments()
