"""How much memory the sessions of a process may hold: what the configuration's `memory` comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.slow_clients import ReadLimits


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """NO_BOUND is none. `max_share`: of the pool of requests, for one user at one address.

    `announced_bytes`: of unfinished requests to one node; 0: no bound.
    """

    request_bytes: int = NO_BOUND
    response_bytes: int = NO_BOUND
    requests: int = NO_BOUND
    max_share: float = 1.0
    announced_bytes: int = 0
    read_limits: ReadLimits = field(default_factory=ReadLimits)
