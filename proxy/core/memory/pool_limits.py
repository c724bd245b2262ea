"""The memory limits of the sessions of a process, computed from the configuration's `memory` section."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.slow_clients import ReadLimits


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The sizes of the pools in bytes, and the number of `requests` held; NO_BOUND: no limit.

    `max_share` is the part of the request pool that one user at one address may use, up to 1.
    `announced_bytes` limits the bytes of unfinished requests to one node; 0: no limit.
    """

    request_bytes: int = NO_BOUND
    response_bytes: int = NO_BOUND
    requests: int = NO_BOUND
    max_share: float = 1.0
    announced_bytes: int = 0
    read_limits: ReadLimits = field(default_factory=ReadLimits)
