"""Each setting that may change live takes effect in the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.config import Config
from proxy.config.sections import DrainSettings, LimitSettings, MemorySettings, PurgatorySettings
from proxy.config.telemetry import TracesSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.read_sizes import MIN_READ_BYTES
from proxy.core.session.grace_times import GraceTimes
from proxy.dynamic_config import dynamic_settings, graces_of
from proxy.telemetry import log
from tests.support.core.memory import Link, kept, small_engine
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import pour

if TYPE_CHECKING:
    from proxy.core.engine import Engine


class FakeAcceptor:
    """The part of an Acceptor that a setting changes."""

    max_connections = 0

    def limit(self, max_connections: int) -> None:
        self.max_connections = max_connections


class FakeTracer:
    """The part of a Tracer that a setting changes."""

    def __init__(self) -> None:
        self.rate = 0

    def set_rate(self, rate: int) -> None:
        self.rate = rate


def changed(path: str, **sections: object) -> tuple[object, FakeAcceptor, FakeTracer]:
    """The engine, the acceptor and the tracer after this setting changed."""
    engine, acceptor, tracer = make_engine(), FakeAcceptor(), FakeTracer()
    config = Config(upstream=UpstreamSettings(bootstrap_servers=("b:9092",)))
    dynamic_settings(engine, acceptor, 3, tracer)[path](msgspec.structs.replace(config, **sections))
    return engine, acceptor, tracer


def change(engine: Engine, path: str, **sections: object) -> None:
    """Apply this setting to the engine."""
    config = Config(upstream=UpstreamSettings(bootstrap_servers=("b:9092",)))
    dynamic_settings(engine, FakeAcceptor(), 3, None)[path](
        msgspec.structs.replace(config, **sections)
    )


def test_a_larger_request_is_accepted_after_the_limit_is_raised():
    """A live change applies to what the pool grants, not only to the announced frame size."""
    engine = small_engine(-1, request_max_bytes=4096)
    before = Link(engine).client(kept(1, 5000)[:100])
    assert before.session.reason is CloseReason.CLIENT_PROTOCOL
    change(engine, "limits", limits=LimitSettings(socket_request_max_bytes=1_000_000))
    after = Link(engine).client(kept(1, 900_000), chunk=8192)
    assert after.to_broker == kept(1, 900_000)
    assert engine.request_pool.used_bytes == 0


def test_a_request_is_refused_after_the_limit_is_lowered():
    """Also on a connection that has sent such requests before."""
    engine = small_engine(-1)
    link = Link(engine).client(kept(1, 5000))
    assert link.to_broker == kept(1, 5000)
    change(engine, "limits", limits=LimitSettings(socket_request_max_bytes=4096))
    link.client(kept(2, 5000))
    assert link.session.reason is CloseReason.CLIENT_PROTOCOL


@pytest.mark.parametrize("key", ["queued_max_request_bytes", "queued_max_response_bytes"])
def test_new_traffic_stays_within_a_pool_that_was_made_smaller(make_bench, key):
    """From 256 MiB to 1 MiB: senders whose peers do not read fill the new size and no more."""
    links, size_bytes = 8, 1 << 20
    bench = make_bench(make_engine(pool_limits=PoolLimits(256 << 20, 256 << 20)))
    change(bench.engine, f"memory.{key}", memory=MemorySettings(**{key: size_bytes}))
    made = [bench.link() for _ in range(links)]
    if key == "queued_max_request_bytes":
        frame = f.produce(1, size_bytes=60 << 20)
        pool = bench.engine.request_pool
        sides = [(client, frame, session.client) for client, _, session in made]
    else:
        frame = f.reply(1, bytes(60 << 20))
        pool = bench.engine.reply_pool
        for client, _, _ in made:
            client.sendall(f.heartbeat(1))
        bench.run()
        sides = [(broker, frame, session.broker) for _, broker, session in made]
    pour(bench, sides)
    assert links * MIN_READ_BYTES < pool.peak_bytes <= size_bytes + links * MIN_READ_BYTES


def test_the_limits_of_connections_change():
    """Those of addresses, users, rates and times together."""
    section = LimitSettings(
        max_connections=7,
        max_connections_per_ip=1,
        max_connections_per_user=2,
        max_connection_creation_rate=3,
        max_connection_creation_rate_per_ip=4,
        max_unauthenticated_connections=5,
        connections_max_idle_ms=6,
        connections_max_age_ms=11,
        first_request_timeout_ms=7,
        authentication_timeout_ms=8,
        max_tls_handshakes=9,
        tls_handshake_timeout_ms=10,
    )
    engine, acceptor, _ = changed("limits", limits=section)
    assert acceptor.max_connections == 7
    assert engine.connections.limits == ConnectionLimits(
        max_per_ip=1,
        max_per_user=2,
        max_rate=3,
        max_rate_per_ip=4,
        max_unauthenticated=5,
        max_idle_ms=6,
        max_age_ms=11,
        first_request_timeout_ms=7,
        authentication_timeout_ms=8,
        max_tls_handshakes=9,
        tls_handshake_timeout_ms=10,
    )


@pytest.mark.parametrize(
    ("key", "pool"),
    [
        ("queued_max_request_bytes", "request_pool"),
        ("queued_max_response_bytes", "reply_pool"),
    ],
)
def test_the_pools_are_resized(key, pool):
    """The same pool objects get the new size."""
    size_bytes = 300 << 20
    engine, _, _ = changed(f"memory.{key}", memory=MemorySettings(**{key: size_bytes}))
    assert getattr(engine, pool).size_bytes == size_bytes


def test_waiting_requests_proceed_when_the_announced_bound_grows():
    """The queue is served at once."""
    engine = make_engine(pool_limits=PoolLimits(announced_bytes=1000))
    asked = f.produce(1, size_bytes=18_000_000)
    first, second = (Wire(engine).client(asked[:40_000]) for _ in range(2))
    assert (first.to_broker, second.to_broker) == (asked[:40_000], b"")
    change(
        engine,
        "memory.upstream_announced_max_bytes",
        memory=MemorySettings(upstream_announced_max_bytes=100_000_000),
    )
    second.client(asked[40_000:])
    assert second.to_broker == asked


def test_the_purgatory_settings_change():
    """The grace times, the longest wait and the silence."""
    section = PurgatorySettings(produce_grace_ms=-200, fetch_grace_ms=300)
    engine, _, _ = changed("purgatory", purgatory=section)
    assert engine.graces == GraceTimes(-200, 300, section.max_wait_ms, section.silence_ms)


def test_the_trace_settings_change_and_sampling_only_with_a_tracer():
    """The slow threshold, the sampling interval and the span rate; without a tracer a change needs a restart."""
    engine, _, _ = changed("traces.slow_ms", traces=TracesSettings(slow_ms=70))
    assert engine.slow_us == 70_000
    engine, _, _ = changed(
        "traces.sample_every_requests", traces=TracesSettings(sample_every_requests=9)
    )
    assert engine.sample_every == 9
    _, _, tracer = changed(
        "traces.max_spans_per_second", traces=TracesSettings(max_spans_per_second=50)
    )
    assert tracer.rate == 50

    assert not any(
        "sample" in path for path in dynamic_settings(make_engine(), FakeAcceptor(), 1, None)
    )


def test_the_log_level_changes():
    """The new level holds from the next line."""
    before = log.level()
    try:
        changed(
            "log.level",
            log=msgspec.structs.replace(
                Config(upstream=UpstreamSettings(bootstrap_servers=("b:9092",))).log, level="debug"
            ),
        )
        assert log.level() == "debug"
    finally:
        log.set_level(before)


def test_the_drain_timeout_needs_nothing_applied():
    """It is read when a drain starts."""
    changed("drain", drain=DrainSettings(timeout_ms=1))
    assert graces_of(Config(upstream=UpstreamSettings(bootstrap_servers=("b:9092",))))
