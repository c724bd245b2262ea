"""The settings of `upstream`: the cluster, and how Sluice connects to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from policies.validation import Problem
from proxy.config.security import (  # noqa: TC001 - msgspec reads them at run time
    UpstreamSasl,
    UpstreamTls,
)
from proxy.config.values import (
    Milliseconds,
    PositiveMilliseconds,
    Server,
    api_key_of,
    split_server,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class UpstreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The Kafka cluster that clients are connected to."""

    bootstrap_servers: Annotated[
        tuple[Server, ...],
        Meta(
            min_length=1,
            description="Brokers to ask first, HOST:PORT each (Kafka: bootstrap.servers).",
        ),
    ]
    socket_connection_setup_timeout_ms: Annotated[
        PositiveMilliseconds,
        Meta(
            description="Longest time for one attempt to connect to a broker (Kafka: "
            "socket.connection.setup.timeout.ms)."
        ),
    ] = 10_000
    request_timeout_ms: Annotated[
        Milliseconds,
        Meta(
            description="Longest wait for a broker's reply before the connection is closed (Kafka: "
            "request.timeout.ms). Requests with a deadline of their own are exempt. 0 = no limit."
        ),
    ] = 120_000
    tls: Annotated[
        UpstreamTls | None, Meta(description="TLS to the brokers; absent = plain connections.")
    ] = None
    sasl: Annotated[
        UpstreamSasl | None,
        Meta(
            description="Sluice's own credentials; absent = each client authenticates to the brokers itself."
        ),
    ] = None

    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Return (host, port) of each bootstrap server."""
        return tuple(map(split_server, self.bootstrap_servers))

    @property
    def has_credentials(self) -> bool:
        """Whether Sluice shows the brokers credentials of its own, a login or a certificate."""
        return self.sasl is not None or (self.tls is not None and self.tls.cert_file != "")

    def forwarded_credential_apis(self) -> frozenset[int] | None:
        """Return the keys of `forward_credential_apis`, of the credentials that the brokers judge by; None without."""
        shown = self.tls if self.sasl is None else self.sasl
        if shown is None or not self.has_credentials:
            return None
        return frozenset(map(api_key_of, shown.forward_credential_apis))

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for APIs that a certificate forwards, if the brokers do not judge by it."""
        if self.tls is None or not self.tls.forward_credential_apis:
            return
        words = ""
        if self.sasl is not None:
            words = (
                "nothing: the brokers judge by upstream.sasl, whose forward_credential_apis counts"
            )
        elif not self.tls.cert_file:
            words = "nothing, because without cert_file Sluice brings no credentials of its own"
        if words:
            yield Problem("tls.forward_credential_apis", "a list", words)
