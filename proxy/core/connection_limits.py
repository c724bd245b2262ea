"""How many clients are connected, by address and by user, and how fast new ones come.

Rules:
- A count changes when a connection begins or ends, or when its user becomes known; never with a request.
- IPv6 clients count by their /64 network, because one host may have all of its addresses. An IPv4 address inside an
  IPv6 one counts as itself.
- A rate lets a second's worth of connections through at once. (Kafka's KIP-612 measures a mean over several seconds.)
- Rates by address are kept for the MAX_RATED addresses that came last, so that many addresses cost no memory.
- Only users that are authenticated have a limit of their own: ANONYMOUS, UNKNOWN and a fixed name are many clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.errors import CloseReason

if TYPE_CHECKING:
    from policies.api import Peer

MAX_RATED: Final = 10_000
"""The most addresses whose rates are kept. An address that is forgotten begins with a full second's worth."""
AUTHENTICATED: Final = frozenset({"sasl", "tls"})
"""Values of `Peer.principal_source` of users that are known by name and authenticated."""
_MS_NS: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of connections. 0: no such limit, or no such deadline."""

    max_per_ip: int = 0
    max_per_user: int = 0
    max_rate: int = 0
    """New connections per second."""
    max_rate_per_ip: int = 0
    max_unauthenticated: int = 0
    first_request_timeout_ms: int = 0
    authentication_timeout_ms: int = 0
    max_idle_ms: int = 0
    max_age_ms: int = 0
    max_tls_handshakes: int = 64
    tls_handshake_timeout_ms: int = 10_000


class Refusal(NamedTuple):
    """Why a connection is closed."""

    reason: CloseReason
    detail: str


class ConnectionCounts:
    """The connections of a process. `limits` may be replaced at any time; open connections stay."""

    __slots__ = ("_by_address", "_by_user", "_full_ns", "_rated", "handshaking", "limits")

    def __init__(self) -> None:
        self.limits = ConnectionLimits()
        self.handshaking = 0  # clients in their TLS handshakes, or that wait for it
        self._by_address: dict[str, int] = {}
        self._by_user: dict[str, int] = {}
        self._full_ns = 0  # when the bucket of all addresses is full again
        self._rated: dict[str, int] = {}  # the same by address, in the order of the last connection

    # -- rates -----------------------------------------------------------------------------------

    def try_accept(self, now_ms: int) -> bool:
        """Return whether the rate of new connections allows another one now; if so it is counted."""
        rate, now_ns = self.limits.max_rate, now_ms * _MS_NS
        if rate:
            full_ns = _after_one(self._full_ns, rate, now_ns)
            if full_ns is None:
                return False
            self._full_ns = full_ns
        return True

    def _try_rate(self, address: str, now_ms: int) -> bool:
        rate, rated, now_ns = self.limits.max_rate_per_ip, self._rated, now_ms * _MS_NS
        full_ns = _after_one(rated.get(address, 0), rate, now_ns)
        if full_ns is None:
            return False
        rated.pop(address, None)  # it goes to the end
        rated[address] = full_ns
        if len(rated) > MAX_RATED:
            del rated[next(iter(rated))]
        return True

    # -- counts ----------------------------------------------------------------------------------

    def maybe_refuse(self, host: str, now_ms: int) -> Refusal | None:
        """Return why this host may not connect now; None if it may, which counts for its rate."""
        limits = self.limits
        if not (limits.max_per_ip or limits.max_rate_per_ip):
            return None
        address = address_of(host)
        connected = self._by_address.get(address, 0)
        if limits.max_per_ip and connected >= limits.max_per_ip:
            detail = f"{address} has {connected} connections, the limit is {limits.max_per_ip}"
            return Refusal(CloseReason.MAX_CONNECTIONS_PER_IP, detail)
        if limits.max_rate_per_ip and not self._try_rate(address, now_ms):
            detail = f"{address} connects faster than {limits.max_rate_per_ip} times per second"
            return Refusal(CloseReason.MAX_CONNECTION_CREATION_RATE_PER_IP, detail)
        return None

    def join(self, peer: Peer) -> Refusal | None:
        """Count a connection for its address, and its user; return why it may not stay, and then count nothing."""
        refusal = self._join_user(peer)
        if refusal is None:
            self._join_address(peer.host)
        return refusal

    def join_handshake(self, host: str) -> None:
        """Count a connection before its TLS handshake, for its address."""
        self.handshaking += 1
        self._join_address(host)

    def leave_handshake(self, host: str) -> None:
        """Count off a connection that was counted for its handshake."""
        self.handshaking -= 1
        _count_off(self._by_address, address_of(host))

    def change_user(self, before: Peer, after: Peer) -> Refusal | None:
        """Count a connection for another user; return why it may not stay, and then change nothing."""
        refusal = self._join_user(after)
        if refusal is None:
            self._leave_user(before)
        return refusal

    def leave(self, peer: Peer) -> None:
        """Count off a connection that has ended."""
        _count_off(self._by_address, address_of(peer.host))
        self._leave_user(peer)

    def of_address(self, host: str) -> int:
        """Return how many connections count for the address of this host."""
        return self._by_address.get(address_of(host), 0)

    def of_user(self, user: str) -> int:
        """Return how many connections this authenticated user has."""
        return self._by_user.get(user, 0)

    def _join_address(self, host: str) -> None:
        address = address_of(host)
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def _join_user(self, peer: Peer) -> Refusal | None:
        if peer.principal_source in AUTHENTICATED:
            user, max_per_user = peer.user, self.limits.max_per_user
            connected = self._by_user.get(user, 0)
            if max_per_user and connected >= max_per_user:
                detail = f"{user[:249]!r} has {connected} connections, the limit is {max_per_user}"
                return Refusal(CloseReason.MAX_CONNECTIONS_PER_USER, detail)
            self._by_user[user] = connected + 1
        return None

    def _leave_user(self, peer: Peer) -> None:
        if peer.principal_source in AUTHENTICATED:
            _count_off(self._by_user, peer.user)


def address_of(host: str) -> str:
    """Return what a host counts as: an IPv4 address itself, an IPv6 address its /64 network."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


def _after_one(full_ns: int, rate: int, now_ns: int) -> int | None:
    """Return when a bucket that is full at `full_ns` is full again after another token; None if it has none."""
    full_ns = max(full_ns, now_ns) + _SECOND_NS // rate
    return full_ns if full_ns - now_ns <= _SECOND_NS else None


def _count_off(counts: dict[str, int], key: str) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
