"""The whole configuration: the sections together, and what must fit across them.

`proxy.config.sources` reads the values and joins them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from policies.credential_guard import NAME as GUARD
from policies.registry import PolicyEntry  # noqa: TC001 - msgspec reads it at run time
from policies.validation import Problem
from proxy.config.sections import (
    DrainSettings,
    IdentitySettings,
    LimitSettings,
    ListenSettings,
    LogSettings,
    MemorySettings,
    PurgatorySettings,
)
from proxy.config.telemetry import (
    AdminSettings,
    AuditSettings,
    MetricsSettings,
    TracesSettings,
    UsageLogSettings,
)
from proxy.config.upstream import UpstreamSettings  # noqa: TC001 - msgspec reads it at run time
from proxy.config.values import ANY_ADDRESS, Api, api_key_of, is_loopback
from wire.apis import OFFERED, ApiKey, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_AUDIT = frozenset({"audit", "policies.audit:Audit"})
_ACCESS = frozenset({"access", "policies.access.policy:Access"})


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The configuration of one Sluice process."""

    upstream: UpstreamSettings
    listen: ListenSettings = msgspec.field(default_factory=ListenSettings)
    identity: IdentitySettings = msgspec.field(default_factory=IdentitySettings)
    limits: LimitSettings = msgspec.field(default_factory=LimitSettings)
    memory: MemorySettings = msgspec.field(default_factory=MemorySettings)
    purgatory: PurgatorySettings = msgspec.field(default_factory=PurgatorySettings)
    drain: DrainSettings = msgspec.field(default_factory=DrainSettings)
    log: LogSettings = msgspec.field(default_factory=LogSettings)
    admin: AdminSettings = msgspec.field(default_factory=AdminSettings)
    metrics: MetricsSettings = msgspec.field(default_factory=MetricsSettings)
    traces: TracesSettings = msgspec.field(default_factory=TracesSettings)
    usage_log: UsageLogSettings = msgspec.field(default_factory=UsageLogSettings)
    audit: AuditSettings = msgspec.field(default_factory=AuditSettings)
    policies: Annotated[
        tuple[PolicyEntry, ...],
        Meta(
            description="The policies. Requests pass them in this order, replies in the reverse order."
        ),
    ] = ()
    policies_path: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            description="Directories whose files NAME.py are policies, for `use: NAME`. They are code: no directory "
            "or file may be writable by all users."
        ),
    ] = ()
    pass_unknown_apis: Annotated[
        tuple[Api, ...],
        Meta(
            description="API keys or names outside Sluice's table that pass unread. A broker address in "
            "their replies would reach the client."
        ),
    ] = ()

    def max_share(self) -> float:
        """Return `memory.max_share` or its default: 1 on a loopback address, which has one application, else 0.25."""
        return self.memory.max_share or (1.0 if is_loopback(self.listen.address) else 0.25)

    def unknown_apis(self) -> frozenset[int]:
        """Return the keys of `pass_unknown_apis`."""
        return frozenset(map(api_key_of, self.pass_unknown_apis))

    def has_secrets(self) -> bool:
        """Return whether the process holds keys or passwords, of its own or of users."""
        sides = (self.upstream, self.listen)
        return any(each.tls is not None or each.sasl is not None for each in sides)

    @property
    def passes_logins(self) -> bool:
        """Whether the brokers authenticate clients: their SASL passes through."""
        return self.upstream.sasl is None and self.listen.sasl is None

    def mistakes(self) -> Iterator[Problem]:
        """Yield the problems that only several sections together show."""
        yield from self._known_apis()
        yield from self._guarded_apis()
        yield from self._apis_beside_access()
        yield from self._reserved_names()
        yield from self._overlapping_ports()
        yield from self._upstream_loops()
        yield from self._audit_without_file()

    def _known_apis(self) -> Iterator[Problem]:
        """An API of the table could carry a broker's address in a version outside it."""
        for place, value in enumerate(self.pass_unknown_apis):
            key = api_key_of(value)
            if key in OFFERED:
                low, high = OFFERED[key]
                yield Problem(
                    f"pass_unknown_apis[{place}]",
                    f"{value!r}, which is in Sluice's table ({name_of(key)}, versions {low}..{high})",
                    "an API outside the table: another version of this one could carry a broker's address",
                )

    def _guarded_apis(self) -> Iterator[Problem]:
        """A client could speak as a broker, by the credentials of Sluice."""
        for place, value in enumerate(self.pass_unknown_apis):
            key = api_key_of(value)
            if self.upstream.has_credentials and key in {*ApiKey} - OFFERED.keys():
                yield Problem(
                    f"pass_unknown_apis[{place}]",
                    f"{value!r}, which only brokers use ({name_of(key)})",
                    "no such API, because Sluice brings its own credentials",
                )

    def _apis_beside_access(self) -> Iterator[Problem]:
        """They would pass whoever asks: no policy knows what they do."""
        judges = any(each.use in _ACCESS and each.mode == "enforce" for each in self.policies)
        for place, value in enumerate(self.pass_unknown_apis if judges else ()):
            yield Problem(
                f"pass_unknown_apis[{place}]",
                repr(value),
                "no such API beside the policy access, which refuses what it does not know",
            )

    def _reserved_names(self) -> Iterator[Problem]:
        """An entry of this name would take the guard's place in logs and metrics."""
        for place, entry in enumerate(self.policies):
            if entry.name == GUARD:
                words = "another name: this is that of Sluice's own guard"
                yield Problem(f"policies[{place}].name", repr(entry.name), words)

    def _audit_without_file(self) -> Iterator[Problem]:
        """The policy has no other place for what it finds."""
        for place, entry in enumerate(self.policies):
            if entry.use in _AUDIT and not self.audit.file:
                words = "audit.file, the file that it adds to"
                yield Problem(f"policies[{place}].use", f"{entry.use!r} without audit.file", words)

    def _overlapping_ports(self) -> Iterator[Problem]:
        ports = self.listen.client_ports()
        for name in ("listen", "control"):
            address = getattr(self.admin, name)
            host, _, port = address.rpartition(":")
            if port.isdecimal() and int(port) in ports and _overlap(host, self.listen.address):
                shown = f"{ports[0]}..{ports[-1]}" if len(ports) > 1 else str(ports[0])
                words = f"a port other than {shown}, which clients connect to"
                yield Problem(f"admin.{name}", repr(address), words)

    def _upstream_loops(self) -> Iterator[Problem]:
        """A Sluice that is its own broker would connect to itself without end."""
        here = {self.listen.address, *self.listen.advertised_hosts()}
        if here & _LOOPBACK or here & ANY_ADDRESS:
            here |= _LOOPBACK
        is_anywhere = bool(here & ANY_ADDRESS)
        for place, (host, port) in enumerate(self.upstream.addresses()):
            is_here = host in here or (is_anywhere and is_loopback(host))
            if is_here and port in self.listen.client_ports():
                server = self.upstream.bootstrap_servers[place]
                path = f"upstream.bootstrap_servers[{place}]"
                yield Problem(
                    path, f"{server!r}, where Sluice itself listens", "a broker's address"
                )


def _overlap(one: str, other: str) -> bool:
    """Return whether two sockets with the same port on these addresses exclude each other."""
    hosts = {one.strip("[]"), other}
    return len(hosts) == 1 or not hosts.isdisjoint(ANY_ADDRESS)
