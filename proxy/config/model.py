"""What Sluice can be told, in the shape of its YAML file.

- These types are the one source: the file, the environment variables, the JSON Schema and the words
  of a mistake all come from them. Kafka's names where Kafka has them; units end the name.
- Frozen and strict: no unknown key, no text for a number. Every default is written here.
- How the values come together is `proxy.config.sources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from policies.registry import PolicyEntry
from policies.type_names import found
from policies.validation import Problem
from proxy.config.telemetry import Admin, Audit, Metrics, Traces, UsageLog
from proxy.config.values import (
    ANY_ADDRESS,
    Api,
    Nodes,
    Server,
    api_key_of,
    check_advertised_host,
    check_host,
    check_user,
    is_loopback,
    parse_nodes,
    split_server,
)
from wire.apis import OFFERED, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Admin",
    "Audit",
    "Config",
    "Drain",
    "Identity",
    "Limits",
    "Listen",
    "Log",
    "Memory",
    "Metrics",
    "PolicyEntry",
    "Purgatory",
    "Traces",
    "Upstream",
    "UsageLog",
]

LAST_PORT = 65535
_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1


class Upstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The real cluster."""

    bootstrap_servers: Annotated[
        tuple[Server, ...],
        msgspec.Meta(min_length=1, description="Brokers to ask first, HOST:PORT each."),
    ]
    socket_connection_setup_timeout_ms: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=_DAY_MS, description="How long one attempt to connect to a broker may take."
        ),
    ] = 10_000
    request_timeout_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_DAY_MS,
            description="How long the oldest request may wait for a broker's reply before its "
            "connection is closed, unless it has a deadline of its own. 0 = without limit.",
        ),
    ] = 120_000

    def addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each bootstrap server."""
        return tuple(map(split_server, self.bootstrap_servers))


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where clients connect: a bootstrap port, and behind it one port per node."""

    address: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="Address to bind.",
            extra={"expected": "a host name or an IP address", "check": check_host},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=LAST_PORT, description="The bootstrap port.")] = (
        19092
    )
    nodes: Nodes = "0-31"
    advertised_host: Annotated[
        str,
        msgspec.Meta(
            description="Host that clients are told to dial. Default: `address`; needed when that "
            "is 0.0.0.0 or ::.",
            extra={"check": check_advertised_host},
        ),
    ] = ""

    def __post_init__(self) -> None:
        if not self.advertised_host and self.address not in ANY_ADDRESS:
            msgspec.structs.force_setattr(self, "advertised_host", self.address)

    def node_ids(self) -> tuple[int, ...]:
        """The declared broker ids, in the order of their ports."""
        return parse_nodes(self.nodes)

    def node_ports(self) -> dict[int, int]:
        """Broker id to its port: port + 1 + the id's place in `nodes`."""
        return {node: self.port + 1 + place for place, node in enumerate(self.node_ids())}

    def mistakes(self) -> Iterator[Problem]:
        """Ports that do not exist, and hosts nobody can dial."""
        last = self.port + len(self.node_ids())
        if last > LAST_PORT:
            words = (
                f"a port of at most {LAST_PORT - len(self.node_ids())}, for the ports of all nodes"
            )
            yield Problem("port", f"{self.port} (the last node would have {last})", words)
        if not self.advertised_host:
            words = f"a host that clients can dial, because address is {self.address}"
            yield Problem("advertised_host", "nothing", words)
        elif self.advertised_host in ANY_ADDRESS:
            yield Problem(
                "advertised_host", found(self.advertised_host), "a host that clients can dial"
            )


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who the clients are, where they do not say it themselves."""

    user: Annotated[
        str,
        msgspec.Meta(
            description="User of all clients that the brokers have not authenticated by SASL: a sidecar's one "
            "application. Empty = ANONYMOUS.",
            extra={"check": check_user},
        ),
    ] = ""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What Sluice itself will bear."""

    socket_request_max_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=_INT32_MAX,
            description="Largest request, header and body (Kafka: socket.request.max.bytes).",
        ),
    ] = 104_857_600
    max_connections: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_INT32_MAX,
            description="Maximum number of connected clients. 0 = as many as the file descriptors allow.",
        ),
    ] = 0


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much may be held of requests and replies that are on their way (KIP-72)."""

    queued_max_request_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=-1,
            description="Bytes of requests held in memory: buffered, parked, or not accepted by a broker (Kafka: "
            "queued.max.request.bytes). 0 = derived from the container's memory limit, -1 = without bound.",
        ),
    ] = 0
    queued_max_requests: Annotated[
        int,
        msgspec.Meta(
            ge=-1,
            le=_INT32_MAX,
            description="Requests held in memory before no new request is accepted (Kafka: "
            "queued.max.requests). -1 = without bound.",
        ),
    ] = -1
    queued_max_response_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=-1,
            description="Bytes of replies held for clients that do not read them. 0 = derived, "
            "-1 = without bound.",
        ),
    ] = 0
    request_read_timeout_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_DAY_MS,
            description="How long a buffered request may take to arrive, once memory is reserved for it, "
            "before its connection is closed. 0 = without limit.",
        ),
    ] = 30_000
    request_min_bytes_per_second: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_INT32_MAX,
            description="Lowest average rate of a buffered request, judged after five seconds. 0 = without limit.",
        ),
    ] = 1024
    max_share: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=1,
            description="How much of queued_max_request_bytes one user at one address may reserve. 0 = "
            "0.25, or 1 where listen.address is a loopback address.",
        ),
    ] = 0.0

    upstream_announced_max_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            description="Bytes of unfinished requests announced to one broker, which allocates memory for them at "
            "once. Beyond this, further requests of more than 64 KiB wait. 0 = without bound.",
        ),
    ] = 134_217_728

    def mistakes(self) -> Iterator[Problem]:
        """A bound that would let nothing through."""
        if self.queued_max_requests == 0:
            yield Problem("queued_max_requests", "0", "a number from 1 on, or -1 for no bound")


class Purgatory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a request that waits at a broker is answered here, and how what waits is kept."""

    silence_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_DAY_MS,
            description="How long a broker that owes a reply must have sent nothing, on any connection, "
            "before requests are answered in its place. 0 = each at its own deadline, silent or not.",
        ),
    ] = 10_000
    produce_grace_ms: Annotated[
        int,
        msgspec.Meta(
            ge=-_DAY_MS,
            le=_DAY_MS,
            description="How long after its own timeout an acks=all produce is answered with "
            "REQUEST_TIMED_OUT. Negative = before, by half of the timeout at most.",
        ),
    ] = -500
    fetch_grace_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_DAY_MS,
            description="How long after its own max_wait_ms a fetch is answered empty.",
        ),
    ] = 1000
    max_wait_ms: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=_DAY_MS,
            description="The longest wait of a request, even if it asks for more; the grace is added.",
        ),
    ] = 120_000


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How it ends after SIGTERM."""

    timeout_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=_DAY_MS, description="How long requests in flight may take to be answered."
        ),
    ] = 10_000


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is said, on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        msgspec.Meta(description="The lowest level that is logged."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], msgspec.Meta(description="text for people, json for programs.")
    ] = "text"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole configuration of one Sluice."""

    upstream: Upstream
    listen: Listen = msgspec.field(default_factory=Listen)
    identity: Identity = msgspec.field(default_factory=Identity)
    limits: Limits = msgspec.field(default_factory=Limits)
    memory: Memory = msgspec.field(default_factory=Memory)
    purgatory: Purgatory = msgspec.field(default_factory=Purgatory)
    drain: Drain = msgspec.field(default_factory=Drain)
    log: Log = msgspec.field(default_factory=Log)
    admin: Admin = msgspec.field(default_factory=Admin)
    metrics: Metrics = msgspec.field(default_factory=Metrics)
    traces: Traces = msgspec.field(default_factory=Traces)
    usage_log: UsageLog = msgspec.field(default_factory=UsageLog)
    audit: Audit = msgspec.field(default_factory=Audit)
    policies: Annotated[
        tuple[PolicyEntry, ...],
        msgspec.Meta(
            description="The chain: requests pass it from first to last, replies from last to first."
        ),
    ] = ()
    pass_unknown_apis: Annotated[
        tuple[Api, ...],
        msgspec.Meta(
            description="API keys or names outside Sluice's table that may pass unread. A broker's "
            "address in their replies would reach the client."
        ),
    ] = ()

    def max_share(self) -> float:
        """`memory.max_share`, or its default: behind a loopback address there is one application."""
        return self.memory.max_share or (1.0 if is_loopback(self.listen.address) else 0.25)

    def unknown_apis(self) -> frozenset[int]:
        """The keys of `pass_unknown_apis`."""
        return frozenset(map(api_key_of, self.pass_unknown_apis))

    def mistakes(self) -> Iterator[Problem]:
        """Sluice before itself would be a ring; an API of the table can leak an address in a version outside it."""
        for place, value in enumerate(self.pass_unknown_apis):
            key = api_key_of(value)
            if key in OFFERED:
                low, high = OFFERED[key]
                yield Problem(
                    f"pass_unknown_apis[{place}]",
                    f"{value!r}, which Sluice's table has ({name_of(key)}, versions {low} to {high})",
                    "an API outside the table: another version of this one could carry a broker's address",
                )
        ports = range(self.listen.port, self.listen.port + 1 + len(self.listen.node_ids()))
        for name in ("listen", "control"):
            address = getattr(self.admin, name)
            host, _, port = address.rpartition(":")
            if port.isdecimal() and int(port) in ports and _overlap(host, self.listen.address):
                first, last = ports[0], ports[-1]
                words = f"a port outside {first} to {last}, where clients connect"
                yield Problem(f"admin.{name}", repr(address), words)
        here = {self.listen.address, self.listen.advertised_host}
        if here & {"127.0.0.1", "::1", "localhost"} or here & ANY_ADDRESS:
            here |= {"127.0.0.1", "::1", "localhost"}
        for place, (host, port) in enumerate(self.upstream.addresses()):
            if host in here and port in ports:
                path = f"upstream.bootstrap_servers[{place}]"
                server = self.upstream.bootstrap_servers[place]
                yield Problem(
                    path, f"{server!r}, where Sluice itself listens", "a broker's address"
                )


def _overlap(one: str, other: str) -> bool:
    """Whether two sockets with the same port on these addresses would be in each other's way."""
    hosts = {one.strip("[]"), other}
    return len(hosts) == 1 or not hosts.isdisjoint(ANY_ADDRESS)
