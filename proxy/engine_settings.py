"""The engine as the configuration describes it, with the policies of its chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies import registry
from policies.chain import Chain
from policies.credential_guard import with_guard
from policies.hook_runner import HookRunner
from proxy.core.engine import Engine
from proxy.core.session.engine_options import EngineOptions
from proxy.core.topology import Topology
from proxy.dynamic_config import connection_limits_of, graces_of, pool_limits_of

if TYPE_CHECKING:
    from policies.entry_host import ProxyServices
    from proxy.config import Config
    from proxy.config.budget import Budget
    from proxy.shell.clock import Clock
    from proxy.telemetry.setup import Telemetry


def make_engine(
    config: Config, budget: Budget, services: ProxyServices, telemetry: Telemetry, clock: Clock
) -> Engine:
    """Return the engine. Raises SettingsError if a policy cannot be built."""
    observer, listen = telemetry.broadcast, config.listen
    topology = Topology(listen.advertised_host, listen.port, listen.node_addresses(), observer)
    hook_runner = HookRunner(observer, clock.now_us)
    built = registry.build(config.policies, services, hook_runner)
    entries = with_guard(built, config.upstream.forwarded_credential_apis())
    options = EngineOptions(
        request_max_bytes=config.limits.socket_request_max_bytes,
        request_timeout_ms=config.upstream.request_timeout_ms,
        pass_unknown=config.unknown_apis(),
        fixed_user=config.identity.user,
        oauthbearer_claim=config.identity.oauthbearer_claim,
        graces=graces_of(config),
        pool_limits=pool_limits_of(config, budget),
        keeps_traces=telemetry.keeps_traces,
        sample_every=config.traces.sample_every_requests if telemetry.tracer else 0,
        slow_ms=config.traces.slow_ms,
        meters_by_key=telemetry.usage_log is not None and "api" in config.usage_log.families,
        capture=telemetry.capture,
        topic_usage=telemetry.topic_usage,
    )
    chain = Chain(entries, observer, hook_runner)
    engine = Engine(topology, chain, observer, options, now_ms=clock())
    engine.limit_connections(connection_limits_of(config))
    return engine
