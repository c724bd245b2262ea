"""The settings besides the policies that a reload may change: each key path and the function that applies it.

Rules:
- A function is called between two requests, with a configuration that has passed all checks.
- A setting that is read when it is used has nothing to apply, but is listed too. All other settings need a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.config.budget import budget_of
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from proxy.core.session.grace_times import GraceTimes
from proxy.core.session.shared_state import NEVER_US
from proxy.shell.descriptors import connection_limit
from proxy.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config
    from proxy.config.budget import Budget
    from proxy.core.engine import Engine
    from proxy.shell.acceptor import Acceptor
    from proxy.telemetry.traces.tracer import Tracer

LIVE_SETTINGS = (
    "policies",
    "policies_path",
    "limits",
    "memory.queued_max_request_bytes",
    "memory.queued_max_response_bytes",
    "memory.upstream_announced_max_bytes",
    "purgatory",
    "traces.slow_ms",
    "traces.sample_every_requests",
    "traces.max_spans_per_second",
    "drain",
    "log.level",
)
"""All of them, whole sections by their name. Sampling and span rate are live only where traces are sent anywhere."""


def dynamic_settings(
    engine: Engine, acceptor: Acceptor, others: int, tracer: Tracer | None
) -> dict[str, Callable[[Config], None]]:
    """Return the functions by key path.

    `others` is the number of descriptors that listeners and admin connections use. Without a tracer, sampling and the
    rate of spans need a restart.
    """

    def limits(config: Config) -> None:
        engine.limit_requests(config.limits.socket_request_max_bytes)
        memory(config)  # derived pools leave room for the largest request
        engine.limit_connections(connection_limits_of(config))
        acceptor.limit(connection_limit(config.limits.max_connections, others))

    def memory(config: Config) -> None:
        budget = budget_of(config)
        engine.resize(budget.request_bytes, budget.response_bytes)

    def announced(config: Config) -> None:
        engine.announced.resize(config.memory.upstream_announced_max_bytes)

    def purgatory(config: Config) -> None:
        engine.graces = graces_of(config)
        engine.forget_plans()

    def slow(config: Config) -> None:
        engine.slow_us = config.traces.slow_ms * 1000 or NEVER_US
        engine.forget_plans()

    def drain(_config: Config) -> None:
        """Apply nothing: the setting is read when a drain starts."""

    def log_level(config: Config) -> None:
        log.set_level(config.log.level)

    found: dict[str, Callable[[Config], None]] = {
        "limits": limits,
        "memory.queued_max_request_bytes": memory,
        "memory.queued_max_response_bytes": memory,
        "memory.upstream_announced_max_bytes": announced,
        "purgatory": purgatory,
        "traces.slow_ms": slow,
        "drain": drain,
        "log.level": log_level,
    }
    if tracer is not None:

        def sample(config: Config) -> None:
            engine.resample(config.traces.sample_every_requests)

        def rate(config: Config) -> None:
            tracer.set_rate(config.traces.max_spans_per_second)

        found |= {"traces.sample_every_requests": sample, "traces.max_spans_per_second": rate}
    return found


def connection_limits_of(config: Config) -> ConnectionLimits:
    """Return the limits of client connections."""
    limits = config.limits
    return ConnectionLimits(
        max_per_ip=limits.max_connections_per_ip,
        max_per_user=limits.max_connections_per_user,
        max_rate=limits.max_connection_creation_rate,
        max_rate_per_ip=limits.max_connection_creation_rate_per_ip,
        max_unauthenticated=limits.max_unauthenticated_connections,
        first_request_timeout_ms=limits.first_request_timeout_ms,
        authentication_timeout_ms=limits.authentication_timeout_ms,
        max_idle_ms=limits.connections_max_idle_ms,
        max_age_ms=limits.connections_max_age_ms,
        max_tls_handshakes=limits.max_tls_handshakes,
        tls_handshake_timeout_ms=limits.tls_handshake_timeout_ms,
    )


def graces_of(config: Config) -> GraceTimes:
    """Return the times after which Sluice answers in the place of a silent broker."""
    purgatory = config.purgatory
    return GraceTimes(
        purgatory.produce_grace_ms,
        purgatory.fetch_grace_ms,
        purgatory.max_wait_ms,
        purgatory.silence_ms,
    )


def pool_limits_of(config: Config, budget: Budget) -> PoolLimits:
    """Return the sizes of the pools, and what a client has to keep to while it uses them."""
    memory = config.memory
    limits = ReadLimits(memory.request_read_timeout_ms, memory.request_min_bytes_per_second)
    return PoolLimits(
        request_bytes=budget.request_bytes,
        response_bytes=budget.response_bytes,
        requests=memory.queued_max_requests,
        max_share=config.max_share(),
        announced_bytes=memory.upstream_announced_max_bytes,
        read_limits=limits,
    )
