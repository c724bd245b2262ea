"""How a real client is told to log in by tokens of a test's identity provider, in each library's own words."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_sasl import MODULES, OAUTH
from tests.support.shell.token_issuer import IdentityProvider

_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def allowing(java: Java, provider: IdentityProvider, file: Path | None = None) -> Java:
    """Return a Java that may ask this provider, or read tokens from this file: it wants to be told so (KIP-1139)."""
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    more = [f"{prefix}.urls={provider.url('/token')}" + (f",file://{file}" if file else "")]
    more += [f"{prefix}.files={file}"] if file else []
    return replace(java, options=(*java.options, *more))


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's."""

    def __init__(self, security: "TokenSecurity") -> None:
        super().__init__()
        self._security = security

    def token(self) -> str:
        return self._security.token()


@dataclass(frozen=True, slots=True)
class TokenSecurity:
    """A login by tokens of `user`. Java reads them from `file` if there is one, else asks the provider.

    `claims` change each token. `ca_file`: by TLS.
    """

    provider: IdentityProvider
    user: str = "alice"
    claims: tuple[tuple[str, object], ...] = ()
    ca_file: Path | None = None
    file: Path | None = None

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        return "SASL_PLAINTEXT" if self.ca_file is None else "SASL_SSL"

    def token(self) -> str:
        """Return a new token."""
        return self.provider.token(self.user, **dict(self.claims))

    def java(self) -> dict[str, str]:
        """Return the properties of a Java client."""
        login = f'clientId="{self.user}" clientSecret="secret"' if self.file is None else ""
        url = self.provider.url("/token") if self.file is None else f"file://{self.file}"
        found = {
            "security.protocol": self.protocol,
            "sasl.mechanism": OAUTH,
            "sasl.login.callback.handler.class": _HANDLER,
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.jaas.config": f"{MODULES[OAUTH]} required {login};",
            # A token of a few seconds is renewed before it ends.
            "sasl.login.refresh.min.period.seconds": "0",
            "sasl.login.refresh.buffer.seconds": "0",
        }
        if self.ca_file is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        return found

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of a librdkafka client."""

        def renew(_: str) -> tuple[str, float]:
            return self.token(), int(time.time()) + self.provider.lives_seconds

        found: dict[str, Any] = {
            "security.protocol": self.protocol,
            "sasl.mechanism": OAUTH,
            "oauth_cb": renew,
        }
        if self.ca_file is not None:
            found["ssl.ca.location"] = str(self.ca_file)
        return found

    def kafka_python(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client."""
        found: dict[str, Any] = {
            "security_protocol": self.protocol,
            "sasl_mechanism": OAUTH,
            "sasl_oauth_token_provider": _Tokens(self),
        }
        if self.ca_file is not None:
            found["ssl_cafile"] = str(self.ca_file)
        return found
