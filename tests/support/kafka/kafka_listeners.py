"""The listeners of a real Kafka for every security protocol: one broker serves them all.

| listener | protocol | client certificate |
|---|---|---|
| `SASL_PLAINTEXT`, `SASL_SSL` | the mechanisms of `kafka_sasl` | none |
| `SSL` | TLS | none |
| `MTLS` | TLS | required; its common name is the principal |
| `EXPIRED` | TLS, by a certificate that has expired | none |
| `GSSAPI` | SASL_PLAINTEXT, by Kerberos; only with a `kerberos` | none |

Keystores are PEM files (Kafka 2.7 and later), of an authority made for the test.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.support.kafka.kafka_sasl import LISTENER, TOKENS, SaslListener
from tests.support.kafka.kerberos import SERVICE, Kerberos
from tests.support.shell.certificates import Authority

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = LISTENER
SASL_SSL: Final = "SASL_SSL"
SSL: Final = "SSL"
MTLS: Final = "MTLS"
EXPIRED: Final = "EXPIRED"
GSSAPI: Final = "GSSAPI"
_COMMON_NAME: Final = "RULE:^CN=([^,+]+).*$/$1/,DEFAULT"


@dataclass(frozen=True, slots=True)
class EveryListener:
    """The listeners of the table above."""

    authority: Authority
    sasl: SaslListener = field(default_factory=SaslListener)
    kerberos: Kerberos | None = None

    @property
    def protocols(self) -> dict[str, str]:
        """Listener name to security protocol."""
        names = {SASL_PLAINTEXT: SASL_PLAINTEXT, SASL_SSL: SASL_SSL, SSL: SSL, MTLS: SSL}
        kerberos = {} if self.kerberos is None else {GSSAPI: SASL_PLAINTEXT}
        return names | {EXPIRED: SSL} | kerberos

    def properties(self, host: str) -> Iterator[str]:
        """Yield the lines of the server.properties of the broker at `host`."""
        own = self.authority.issue(host, common_name="broker", file_name=f"broker-{host}")
        yesterday = datetime.now(UTC) - timedelta(days=1)
        old = self.authority.issue(host, file_name=f"expired-{host}", not_after=yesterday)
        for name in (SASL_PLAINTEXT, SASL_SSL):
            yield from self.sasl.of_listener(name)
        for name in (SASL_SSL, SSL, MTLS, EXPIRED):
            prefix = f"listener.name.{name.lower()}.ssl"
            yield f"{prefix}.keystore.type=PEM"
            yield f"{prefix}.keystore.location={(old if name == EXPIRED else own).both_file}"
            yield f"{prefix}.truststore.type=PEM"
            yield f"{prefix}.truststore.location={self.authority.ca_file}"
            yield f"{prefix}.client.auth={'required' if name == MTLS else 'none'}"
        yield f"listener.name.mtls.ssl.principal.mapping.rules={_COMMON_NAME}"
        if self.kerberos is not None:
            prefix = f"listener.name.{GSSAPI.lower()}"
            login = self.kerberos.login(SERVICE, "isInitiator=false")
            yield f"{prefix}.sasl.enabled.mechanisms={GSSAPI}"
            yield f"{prefix}.sasl.kerberos.service.name={SERVICE.partition('/')[0]}"
            yield f"{prefix}.{GSSAPI.lower()}.sasl.jaas.config={login}"
        yield TOKENS

    def format_arguments(self) -> Iterable[str]:
        """Return the arguments of `kafka-storage format` that create the SCRAM users."""
        return self.sasl.format_arguments()
