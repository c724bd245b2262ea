"""How a real client is told to secure its connections, in each library's own words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.kafka.kafka_sasl import MODULES, OAUTH
from tests.support.messages.sasl import unsigned_token
from tests.support.shell.certificates import Pair

_TOKEN_SECONDS: Final = 3600


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """A token of kafka-python's that is not signed."""

    def __init__(self, user: str) -> None:
        super().__init__()
        self._user = user

    def token(self) -> str:
        return unsigned_token(self._user, _TOKEN_SECONDS)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """A login (mechanism, user, password) and TLS: a CA to verify with, perhaps a certificate of the client's own.

    Without `ca_file` there is no TLS, without `mechanism` no login. OAUTHBEARER's token has the user as its subject.
    `login_options` are further options of Java's login module.
    """

    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca_file: Path | None = None
    certificate: Pair | None = None
    login_options: str = ""

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        if not self.mechanism:
            return "PLAINTEXT" if self.ca_file is None else "SSL"
        return "SASL_PLAINTEXT" if self.ca_file is None else "SASL_SSL"

    def java(self) -> dict[str, str]:
        """Return the properties of a Java client."""
        found = {"security.protocol": self.protocol}
        if self.mechanism:
            login = f'username="{self.user}" password="{self.password}" {self.login_options}'
            if self.mechanism == OAUTH:
                login = f'unsecuredLoginStringClaim_sub="{self.user}"'
            found["sasl.mechanism"] = self.mechanism
            found["sasl.jaas.config"] = f"{MODULES[self.mechanism]} required {login};"
        if self.ca_file is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.certificate is not None:
            both = str(self.certificate.both_file)
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": both}
        return found

    def librdkafka(self) -> dict[str, str]:
        """Return the settings of a librdkafka client."""
        found = {"security.protocol": self.protocol}
        if self.mechanism == OAUTH:
            found |= {
                "sasl.mechanism": OAUTH,
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={self.user}",
            }
        elif self.mechanism:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        if self.ca_file is not None:
            found["ssl.ca.location"] = str(self.ca_file)
        if self.certificate is not None:
            found["ssl.certificate.location"] = str(self.certificate.cert_file)
            found["ssl.key.location"] = str(self.certificate.key_file)
        return found

    def kafka_python(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.mechanism == OAUTH:
            found |= {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": _Tokens(self.user)}
        elif self.mechanism:
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        if self.ca_file is not None:
            found["ssl_cafile"] = str(self.ca_file)
        if self.certificate is not None:
            found["ssl_certfile"] = str(self.certificate.cert_file)
            found["ssl_keyfile"] = str(self.certificate.key_file)
        return found
