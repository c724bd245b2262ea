"""The memory budget: how much the process may use at most, in bytes, computed from the settings of `memory`.

    pools + one whole frame (twice, if a policy looks into bodies) + replies kept whole
        + logins that are not whole + residue of each connection + base
        <= 85 % of the container's limit

- The pool of requests may be overdrawn by one frame that is kept whole (KIP-72: the bound is the pool plus
  the largest request). A policy that reads bodies gets a copy, one at a time.
- Replies that must be changed after their first part are kept whole and have REPLY_RESERVE_BYTES beyond the pool.
- Logins of clients that are not known yet never wait for memory, so they have LOGIN_BYTES beyond the pool.
- Pool sizes that are not set are derived: the pools share the rest of the limit equally. Without a limit they
  have DEFAULT_POOL_BYTES each.
- A pool without a bound has no maximum, so nothing is refused here.
- The kernel's socket buffers are beyond the sum: `docs/operate/memory.md` says how large they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.registry import body_apis
from policies.validation import Problem
from proxy.config.container import memory_limit
from wire.apis import OFFERED, known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.config.container import MemoryLimit
    from proxy.config.model import Config


MIB = 1 << 20
USABLE_PART = 0.85
"""The rest is for memory that is not counted: gaps of the allocator, pages of code, short-lived garbage."""
BASE_BYTES = 50 * MIB
"""The idle process (measured, without pages of code: 33 MB, 42 MB with a quota and metrics, 51 MB with traces too)."""
RESIDUE_BYTES = 32 << 10
"""One connection: its objects, and 8 KiB in each direction that the pools do not bound."""
TLS_SIDE_BYTES = 96 << 10
"""One connection's side with TLS (measured: 18 KiB idle, 91 KiB with a partial record and unsent bytes)."""
DERIVED_CONNECTIONS, DERIVED_TLS_CONNECTIONS = 1000, 200
"""Assumed if `limits.max_connections` is 0: without TLS, and with it on either side."""
DEFAULT_POOL_BYTES = 128 * MIB
MIN_POOL_BYTES = MIB
REPLY_RESERVE_BYTES = 8 * MIB
"""The memory for replies that are kept whole, beyond their pool (`proxy.core.memory.reply_reservations`)."""
LOGIN_BYTES = 4 * MIB
"""The memory for clients that are not known yet, beyond the pool of requests (`proxy.core.memory.unauthenticated`)."""
OVER_BYTES = REPLY_RESERVE_BYTES + LOGIN_BYTES
DERIVED = 0
NO_BOUND = -1

MAX_REFUSED_BYTES = 16 << 20
"""A refused request is kept whole up to this size, because its reply is made from it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The inputs of the budget: configured sizes and the limit that was found.

    `tls_sides` is 1 or 2 if clients, brokers or both are connected by TLS. `whole_bytes` is the largest frame that may
    be kept whole; `wanted_bytes` the largest that the policy `wanted_by` reads whole.
    """

    request_bytes: int = DERIVED
    response_bytes: int = DERIVED
    whole_bytes: int = 0
    wanted_bytes: int = 0
    wanted_by: str = ""
    connections: int = 0
    tls_sides: int = 0
    limit_bytes: int | None = None
    limit_origin: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """The terms of the sum, in bytes. The size of a pool may be NO_BOUND."""

    demand: Demand
    request_bytes: int
    response_bytes: int

    @property
    def connections(self) -> int:
        """Return the number of connections that the sum covers."""
        demand = self.demand
        assumed = DERIVED_TLS_CONNECTIONS if demand.tls_sides else DERIVED_CONNECTIONS
        return demand.connections or assumed

    @property
    def connection_bytes(self) -> int:
        """Return the memory of one connection, beyond the pools."""
        return RESIDUE_BYTES + self.demand.tls_sides * TLS_SIDE_BYTES

    @property
    def whole_bytes(self) -> int:
        """Return the memory of one frame beyond the pool, and of the copy that a policy reads."""
        demand = self.demand
        over_bytes = demand.whole_bytes
        if self.request_bytes != NO_BOUND:
            over_bytes = min(over_bytes, self.request_bytes)
        return over_bytes + demand.wanted_bytes

    @property
    def residue_bytes(self) -> int:
        """Return the memory of all connections, beyond the pools."""
        return self.connections * self.connection_bytes

    @property
    def max_bytes(self) -> int | None:
        """Return the sum of all terms; None if a pool has no bound."""
        pools = (self.request_bytes, self.response_bytes)
        if NO_BOUND in pools:
            return None
        return sum(pools) + self.whole_bytes + OVER_BYTES + self.residue_bytes + BASE_BYTES

    @property
    def usable_bytes(self) -> int | None:
        """Return the part of the limit that the sum may use; None without a limit."""
        limit = self.demand.limit_bytes
        return None if limit is None else int(limit * USABLE_PART)

    def lines(self) -> list[str]:
        """Return the terms, the sum and the limit as lines of text."""
        demand = self.demand
        assumed = "" if demand.connections else ", assumed (limits.max_connections is 0)"
        rows = [
            (self.request_bytes, "requests (memory.queued_max_request_bytes)"),
            (self.response_bytes, "replies (memory.queued_max_response_bytes)"),
            (self.whole_bytes, "the largest request kept whole, over the pool"),
            (REPLY_RESERVE_BYTES, "replies kept whole, over the pool"),
            (LOGIN_BYTES, "clients that are not known yet: hellos, tokens, long headers"),
            (
                self.residue_bytes,
                f"{self.connections} connections of {self.connection_bytes >> 10} KiB{assumed}",
            ),
            (BASE_BYTES, "Sluice itself"),
        ]
        lines = [f"  {_mib(size):>11}  {what}" for size, what in rows]
        limit = "no memory limit is set"
        if demand.limit_bytes is not None:
            part = f"{USABLE_PART:.0%} of the limit of {_mib(demand.limit_bytes)}"
            limit = f"{part}, {_mib(self.usable_bytes)}, may be used ({demand.limit_origin})"
        return ["Memory, at most:", *lines, f"  {_mib(self.max_bytes):>11}  in all; {limit}"]

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for a pool below the largest request that a policy reads, or a sum above the limit."""
        demand, most, usable = self.demand, self.max_bytes, self.usable_bytes
        if self.request_bytes != NO_BOUND and self.request_bytes < demand.wanted_bytes:
            derived = " (derived)" if demand.request_bytes == DERIVED else ""
            yield Problem(
                "memory.queued_max_request_bytes",
                f"{self.request_bytes}{derived}",
                f"at least {demand.wanted_bytes}, the largest request that policy {demand.wanted_by!r} "
                "wants whole (limits.socket_request_max_bytes bounds it)",
            )
        if most is not None and usable is not None and most > usable:
            yield Problem(
                "memory",
                f"{most} bytes at most ({_mib(self.request_bytes)} requests + "
                f"{_mib(self.response_bytes)} replies + {_mib(self.whole_bytes)} whole frame + "
                f"{_mib(REPLY_RESERVE_BYTES)} kept replies + {_mib(LOGIN_BYTES)} logins + "
                f"{_mib(self.residue_bytes)} for {self.connections} connections + "
                f"{_mib(BASE_BYTES)} base)",
                f"at most {usable} bytes, {USABLE_PART:.0%} of the limit of {demand.limit_bytes} "
                f"({demand.limit_origin}): smaller pools, fewer connections, or a larger limit",
            )


def settle(demand: Demand) -> Budget:
    """Return the budget: each pool with its configured or derived size."""
    request, response = demand.request_bytes, demand.response_bytes
    derived = (request, response).count(DERIVED)
    if derived:
        each = DEFAULT_POOL_BYTES
        if demand.limit_bytes is not None:
            fixed = Budget(demand, max(request, 0), max(response, 0))
            whole = demand.whole_bytes + demand.wanted_bytes
            taken = fixed.request_bytes + fixed.response_bytes + fixed.residue_bytes + BASE_BYTES
            left = int(demand.limit_bytes * USABLE_PART) - taken - whole - OVER_BYTES
            each = max(left // derived // MIB * MIB, MIN_POOL_BYTES)
        if request == DERIVED:
            request = max(each, demand.wanted_bytes)
            if response == DERIVED and demand.limit_bytes is not None:
                each = max(2 * each - request, MIN_POOL_BYTES)
        response = each if response == DERIVED else response
    return Budget(demand, request, response)


def _mib(size_bytes: int | None) -> str:
    if size_bytes is None or size_bytes == NO_BOUND:
        return "unbounded"
    return f"{size_bytes / MIB:.1f} MiB"


def budget_of(config: Config) -> Budget:
    """Return the budget within the limit of this process."""
    return budget_within(config, memory_limit())


def budget_within(config: Config, limit: MemoryLimit | None) -> Budget:
    """Return the budget within `limit`. `Budget.problems` tells whether the settings fit."""
    max_bytes = 4 + config.limits.socket_request_max_bytes
    wanted = max(
        ((_frame_bytes(key, max_bytes), name) for key, name in _bodies(config).items()),
        default=(0, ""),
    )
    refuses = config.policies or config.upstream.has_credentials
    refused_bytes = min(MAX_REFUSED_BYTES, max_bytes) if refuses else 0
    memory = config.memory
    return settle(
        Demand(
            request_bytes=memory.queued_max_request_bytes,
            response_bytes=memory.queued_max_response_bytes,
            whole_bytes=max(wanted[0], refused_bytes),
            wanted_bytes=wanted[0],
            wanted_by=wanted[1],
            connections=config.limits.max_connections,
            tls_sides=(config.listen.tls is not None) + (config.upstream.tls is not None),
            limit_bytes=limit.limit_bytes if limit else None,
            limit_origin=limit.origin if limit else "",
        )
    )


def _bodies(config: Config) -> dict[int, str]:
    return body_apis(config.policies) if config.policies else {}


def _frame_bytes(api_key: int, max_bytes: int) -> int:
    """Return the largest frame of this API: its own cap or the general one."""
    api = known(api_key, OFFERED[api_key][0])
    cap = api.request_max_bytes if api is not None else None
    return max_bytes if cap is None else min(4 + cap, max_bytes)
