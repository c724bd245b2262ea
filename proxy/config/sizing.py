"""The memory budget of a configuration: the requests that its policies read whole, and the container's limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.registry import body_apis
from proxy.config.budget import Budget, Demand, settle
from proxy.config.container import memory_limit
from wire.apis import OFFERED, known

if TYPE_CHECKING:
    from proxy.config.container import MemoryLimit
    from proxy.config.model import Config

MAX_REFUSED_BYTES = 16 << 20
"""A refused request is kept whole up to this size, because its reply is made from it."""


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
