"""The settings of the proxy itself, a class for each section of the file. Those of telemetry are in `telemetry`.

- These types are the one source of the file's keys, the environment variables, the JSON Schema, the table in
  docs/use/configuration.md and the error messages.
- Names are Kafka's where Kafka has the setting. A unit ends the name.
- Unknown keys are refused, and so is text where a number belongs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from policies.type_names import describe_value
from policies.validation import Problem
from proxy.config.client_logins import ListenSasl  # noqa: TC001 - msgspec reads it at run time
from proxy.config.security import ListenTls  # noqa: TC001 - as above
from proxy.config.values import (
    ANY_ADDRESS,
    DAY_MS,
    INT32_MAX,
    LAST_PORT,
    Milliseconds,
    Network,
    Nodes,
    PositiveMilliseconds,
    check_advertised_host,
    check_host,
    check_user,
    host_of_node,
    is_address,
    parse_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


Count = Annotated[int, Meta(ge=0, le=INT32_MAX)]


class ListenProxyProtocol(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"networks": "from"},
):
    """The PROXY protocol (versions 1 and 2), by which a load balancer tells the address of its client."""

    networks: Annotated[
        tuple[Network, ...],
        Meta(
            min_length=1,
            description="Networks of load balancers (CIDR, or single addresses). A connection from there must begin "
            "with a PROXY header; from anywhere else it may not.",
        ),
    ]


class ListenSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ports for clients: a bootstrap port, followed by one for each broker id unless SNI selects the broker."""

    address: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address to bind.",
            extra={"expected": "a host name or an IP address", "check": check_host},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=LAST_PORT, description="The bootstrap port.")] = 19092
    nodes: Nodes = "0-31"
    advertised_host: Annotated[
        str,
        Meta(
            description="Host that clients are told to connect to. Empty = `listen.address`. Required if that is "
            "0.0.0.0 or ::.",
            extra={"check": check_advertised_host},
        ),
    ] = ""
    tls: Annotated[
        ListenTls | None, Meta(description="TLS for clients; absent = plain connections.")
    ] = None
    proxy_protocol: Annotated[
        ListenProxyProtocol | None,
        Meta(description="The header of a load balancer before each connection; absent = none."),
    ] = None
    sasl: Annotated[
        ListenSasl | None,
        Meta(description="Authentication of clients by Sluice; absent = by the brokers, or none."),
    ] = None

    def __post_init__(self) -> None:
        if not self.advertised_host and self.address not in ANY_ADDRESS:
            msgspec.structs.force_setattr(self, "advertised_host", self.address)

    def node_ids(self) -> tuple[int, ...]:
        """Return the declared broker ids in the order of their ports."""
        return parse_nodes(self.nodes)

    @property
    def serves_by_sni(self) -> bool:
        """Whether one port serves all brokers: the host name in a client's TLS handshake selects one."""
        return self.tls is not None and self.tls.sni_pattern is not None

    def node_ports(self) -> dict[int, int]:
        """Return the port of each broker id: `port` + 1 + the id's place in `nodes`. None has one if SNI selects."""
        if self.serves_by_sni:
            return {}
        return {node: self.port + 1 + place for place, node in enumerate(self.node_ids())}

    def node_addresses(self) -> dict[int, tuple[str, int]]:
        """Return the host and port that clients connect to for each broker id."""
        if self.tls is not None and self.tls.sni_pattern is not None:
            hosts = {node: host_of_node(self.tls.sni_pattern, node) for node in self.node_ids()}
            return {node: (host, self.port) for node, host in hosts.items()}
        return {node: (self.advertised_host, port) for node, port in self.node_ports().items()}

    def advertised_hosts(self) -> frozenset[str]:
        """Return every host that clients connect to."""
        return frozenset(
            (self.advertised_host, *(host for host, _ in self.node_addresses().values()))
        )

    def client_ports(self) -> range:
        """Return every port that is bound for clients."""
        return range(self.port, self.port + 1 + len(self.node_ports()))

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for ports beyond 65535 and for a host that no client can connect to."""
        last = self.client_ports()[-1]
        if last > LAST_PORT:
            words = f"1..{LAST_PORT - len(self.node_ids())}, so that every node has a port"
            yield Problem("port", f"{self.port} (the last node would have {last})", words)
        if not self.advertised_host:
            words = f"a host that clients can connect to, because address is {self.address}"
            yield Problem("advertised_host", "nothing", words)
        elif self.advertised_host in ANY_ADDRESS:
            words = "a host that clients can connect to"
            yield Problem("advertised_host", describe_value(self.advertised_host), words)
        elif self.serves_by_sni:
            yield from self._bootstrap_name()

    def _bootstrap_name(self) -> Iterator[Problem]:
        """TLS sends no address as a server name (RFC 6066), and one name selects one broker, or the bootstrap."""
        shown = describe_value(self.advertised_host)
        taken = {host: node for node, (host, _) in self.node_addresses().items()}
        node = taken.get(self.advertised_host.lower())
        if is_address(self.advertised_host):
            words = "a host name, because tls.sni_pattern is set and TLS sends no address as server name"
            yield Problem("advertised_host", f"{shown}, an address", words)
        elif node is not None:
            words = "a host that no node has by tls.sni_pattern"
            yield Problem("advertised_host", f"{shown}, the host of node {node}", words)


class IdentitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The users of clients."""

    user: Annotated[
        str,
        Meta(
            description="User name for clients that the brokers have not authenticated by SASL. A sidecar names its "
            "application here. Empty = ANONYMOUS.",
            extra={"check": check_user},
        ),
    ] = ""
    oauthbearer_claim: Annotated[
        str,
        Meta(
            max_length=249,
            description="Claim of an OAUTHBEARER token that is its user (Kafka: sasl.oauthbearer.sub.claim.name), "
            "after the broker has accepted the token. Empty = the users of tokens are UNKNOWN.",
        ),
    ] = "sub"


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits for all clients together, and for each request."""

    socket_request_max_bytes: Annotated[
        int,
        Meta(
            ge=1,
            le=INT32_MAX,
            description="Largest request, header and body (Kafka: socket.request.max.bytes).",
        ),
    ] = 104_857_600
    max_connections: Annotated[
        int,
        Meta(
            ge=0,
            le=INT32_MAX,
            description="Most client connections at once (Kafka: max.connections). 0 = as many as the file "
            "descriptors allow.",
        ),
    ] = 0
    max_connections_per_ip: Annotated[
        Count,
        Meta(
            description="Most client connections from one IPv4 address or one IPv6 /64 network (Kafka: "
            "max.connections.per.ip). 0 = no limit."
        ),
    ] = 0
    max_connections_per_user: Annotated[
        Count,
        Meta(description="Most client connections of one authenticated user. 0 = no limit."),
    ] = 0
    max_connection_creation_rate: Annotated[
        Count,
        Meta(
            description="Most new client connections per second; further ones wait (Kafka: "
            "max.connection.creation.rate). 0 = no limit."
        ),
    ] = 0
    max_connection_creation_rate_per_ip: Annotated[
        Count,
        Meta(
            description="Most new client connections per second from one address; further ones are closed (Kafka: "
            "connection_creation_rate of an IP, KIP-612). 0 = no limit."
        ),
    ] = 0
    max_unauthenticated_connections: Annotated[
        Count,
        Meta(
            description="Most client connections that have sent no request yet, or have not authenticated where they "
            "must. For one more, the oldest is closed. 0 = no limit of their own: it is closed when "
            "`max_connections` is reached."
        ),
    ] = 0
    connections_max_idle_ms: Annotated[
        Milliseconds,
        Meta(
            description="How long a client connection may be idle until it is closed (Kafka: "
            "connections.max.idle.ms). 0 = no limit."
        ),
    ] = 600_000
    connections_max_age_ms: Annotated[
        Milliseconds,
        Meta(
            description="How old a client connection may become until it is closed, between two requests; each has "
            "its own limit, up to a tenth lower or higher. 0 = no limit."
        ),
    ] = 0
    first_request_timeout_ms: Annotated[
        Milliseconds,
        Meta(
            description="Longest time from the connection of a client to its first request. 0 = no limit."
        ),
    ] = 30_000
    authentication_timeout_ms: Annotated[
        Milliseconds,
        Meta(
            description="Longest time for a client's authentication, to Sluice or to a broker. 0 = no limit."
        ),
    ] = 60_000
    max_tls_handshakes: Annotated[
        int, Meta(ge=1, le=INT32_MAX, description="Most TLS handshakes with clients at once.")
    ] = 64
    tls_handshake_timeout_ms: Annotated[
        PositiveMilliseconds, Meta(description="Longest time for a client's TLS handshake.")
    ] = 10_000


class MemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """PoolLimits for the requests and replies that are held in memory (KIP-72)."""

    queued_max_request_bytes: Annotated[
        int,
        Meta(
            ge=-1,
            description="Bytes of requests held in memory (Kafka: queued.max.request.bytes). 0 = derived from the "
            "container's memory limit, -1 = no bound.",
        ),
    ] = 0
    queued_max_requests: Annotated[
        int,
        Meta(
            ge=-1,
            le=INT32_MAX,
            description="Number of requests held in memory (Kafka: queued.max.requests). -1 = no bound.",
        ),
    ] = -1
    queued_max_response_bytes: Annotated[
        int,
        Meta(
            ge=-1,
            description="Bytes of replies held in memory for clients that do not read. 0 = derived from the "
            "container's memory limit, -1 = no bound.",
        ),
    ] = 0
    request_read_timeout_ms: Annotated[
        Milliseconds,
        Meta(
            description="Longest time for a request to arrive, from when its memory is reserved, if a faster one needs "
            "that memory. 0 = no limit."
        ),
    ] = 30_000
    request_min_bytes_per_second: Annotated[
        int,
        Meta(
            ge=0,
            le=INT32_MAX,
            description="Lowest mean rate at which a request may arrive, checked after five seconds. 0 = no limit.",
        ),
    ] = 1024
    max_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of queued_max_request_bytes that one user at one address may reserve for requests of "
            "more than 1 MiB, and as much for others. 0 = 0.25, or 1 if `listen.address` is a loopback address.",
        ),
    ] = 0.0
    upstream_announced_max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Bytes of requests that clients have begun to send to one broker and not sent yet. Beyond "
            "that, further requests of more than 64 KiB are gathered first, or wait. 0 = no bound.",
        ),
    ] = 134_217_728

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a bound that lets no request through."""
        if self.queued_max_requests == 0:
            yield Problem("queued_max_requests", "0", f"-1 (no bound) or 1..{INT32_MAX}")


class PurgatorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When Sluice answers requests that wait at a broker."""

    silence_ms: Annotated[
        Milliseconds,
        Meta(
            description="How long a broker that owes a reply must have sent nothing on any connection before Sluice "
            "answers in its place. 0 = answer each request at its own deadline."
        ),
    ] = 10_000
    produce_grace_ms: Annotated[
        int,
        Meta(
            ge=-DAY_MS,
            le=DAY_MS,
            description="Time from a produce's own timeout_ms (acks=all) until Sluice answers REQUEST_TIMED_OUT. "
            "Negative = before it, by half of the timeout at most.",
        ),
    ] = -500
    fetch_grace_ms: Annotated[
        Milliseconds,
        Meta(
            description="Time from a fetch's own max_wait_ms until Sluice answers with an empty reply."
        ),
    ] = 1000
    max_wait_ms: Annotated[
        PositiveMilliseconds,
        Meta(
            description="Longest wait that a produce or a fetch may ask for; longer ones are cut to it. The grace "
            "time is added."
        ),
    ] = 120_000


class DrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the process ends after SIGTERM."""

    timeout_ms: Annotated[
        Milliseconds,
        Meta(description="Longest time for requests in flight to be answered after SIGTERM."),
    ] = 10_000


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Lowest level that is logged."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], Meta(description="Text for people or JSON for machines.")
    ] = "text"
