"""What may change live is applied where it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.config import Config, Drain, Limits, Purgatory, Upstream
from proxy.config.model import Memory
from proxy.config.telemetry import Traces
from proxy.core.bounds import Bounds
from proxy.core.delayed import Graces
from proxy.core.errors import CloseReason
from proxy.core.reads import CRUMB_BYTES
from proxy.knobs import graces_of, knobs
from proxy.telemetry import log
from tests.support import frames as f
from tests.support.memory import Link, kept, small_engine
from tests.support.sessions import Wire, make_engine
from tests.support.sockets import Bench, pour

if TYPE_CHECKING:
    from proxy.core.engine import Engine


class Door:
    """As much of a Acceptor as is turned."""

    max_connections = 0


class Rated:
    """As much of a Tracer as is turned."""

    def __init__(self) -> None:
        self.rate = 0

    def set_rate(self, rate: int) -> None:
        self.rate = rate


def turned(path: str, **sections: object) -> tuple[object, Door, Rated]:
    """The engine, the door and the tracer after this knob was turned to these settings."""
    engine, door, tracer = make_engine(), Door(), Rated()
    config = Config(upstream=Upstream(bootstrap_servers=("b:9092",)))
    knobs(engine, door, 3, tracer)[path](msgspec.structs.replace(config, **sections))
    return engine, door, tracer


def turn(engine: Engine, path: str, **sections: object) -> None:
    """Set this knob of the engine to these settings."""
    config = Config(upstream=Upstream(bootstrap_servers=("b:9092",)))
    knobs(engine, Door(), 3, None)[path](msgspec.structs.replace(config, **sections))


def test_a_larger_request_is_kept_whole_once_the_largest_is_larger():
    """A live change reaches what the pool grants, not only what a frame may announce."""
    engine = small_engine(-1, request_max_bytes=4096)
    before = Link(engine).client(kept(1, 5000)[:100])
    assert before.session.reason is CloseReason.CLIENT_PROTOCOL
    turn(
        engine, "limits.socket_request_max_bytes", limits=Limits(socket_request_max_bytes=1_000_000)
    )
    after = Link(engine).client(kept(1, 900_000), chunk=8192)
    assert after.to_broker == kept(1, 900_000)
    assert engine.request_pool.used_bytes == 0


def test_a_request_that_was_allowed_is_refused_once_the_largest_is_smaller():
    """On a connection that has sent such requests before, too."""
    engine = small_engine(-1)
    link = Link(engine).client(kept(1, 5000))
    assert link.to_broker == kept(1, 5000)
    turn(engine, "limits.socket_request_max_bytes", limits=Limits(socket_request_max_bytes=4096))
    link.client(kept(2, 5000))
    assert link.session.reason is CloseReason.CLIENT_PROTOCOL


@pytest.mark.parametrize("key", ["queued_max_request_bytes", "queued_max_response_bytes"])
def test_new_traffic_stays_within_a_pool_that_was_made_smaller(key):
    """From 256 MiB to 1 MiB: senders whose peers do not read fill the new size and no more."""
    links, size_bytes = 8, 1 << 20
    bench = Bench(make_engine(bounds=Bounds(256 << 20, 256 << 20)))
    try:
        turn(bench.engine, f"memory.{key}", memory=Memory(**{key: size_bytes}))
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
        assert links * CRUMB_BYTES < pool.peak_bytes <= size_bytes + links * CRUMB_BYTES
    finally:
        bench.close()


def test_how_many_may_connect():
    """The door knows at once."""
    _, door, _ = turned("limits.max_connections", limits=Limits(max_connections=7))
    assert door.max_connections == 7


@pytest.mark.parametrize(
    ("key", "pool"),
    [
        ("queued_max_request_bytes", "request_pool"),
        ("queued_max_response_bytes", "reply_pool"),
    ],
)
def test_the_pools(key, pool):
    """They are resized where they stand."""
    size_bytes = 300 << 20
    engine, _, _ = turned(f"memory.{key}", memory=Memory(**{key: size_bytes}))
    assert getattr(engine, pool).size_bytes == size_bytes


def test_a_larger_bound_of_what_is_announced_lets_waiting_requests_go_on():
    """It serves the line at once."""
    engine = make_engine(bounds=Bounds(announced_bytes=1000))
    asked = f.produce(1, size_bytes=100_000)
    first, second = (Wire(engine).client(asked[:1000]) for _ in range(2))
    assert (first.to_broker, second.to_broker) == (asked[:1000], b"")
    turn(
        engine,
        "memory.upstream_announced_max_bytes",
        memory=Memory(upstream_announced_max_bytes=1_000_000),
    )
    second.client(asked[1000:])
    assert second.to_broker == asked


def test_the_purgatory():
    """Its graces and how often it is purged."""
    section = Purgatory(produce_grace_ms=-200, fetch_grace_ms=300, purge_interval_requests=17)
    engine, _, _ = turned("purgatory", purgatory=section)
    assert engine.graces == Graces(-200, 300, section.wait_most_ms, section.silence_ms)
    assert engine.holds.purge_interval == 17


def test_what_is_told():
    """What is slow, how many are sampled, and how many spans may leave."""
    engine, _, _ = turned("traces.slow_ms", traces=Traces(slow_ms=70))
    assert engine.slow_us == 70_000
    engine, _, _ = turned("traces.sample_every", traces=Traces(sample_every=9))
    assert engine.sample_every == 9
    _, _, tracer = turned("traces.spans_per_second", traces=Traces(spans_per_second=50))
    assert tracer.rate == 50


def test_without_traces_there_is_nothing_to_sample():
    """A change of it needs a restart then."""
    assert not any("sample" in path for path in knobs(make_engine(), Door(), 1, None))


def test_how_much_is_logged():
    """From the next line on."""
    before = log.level()
    try:
        turned(
            "log.level",
            log=msgspec.structs.replace(
                Config(upstream=Upstream(bootstrap_servers=("b:9092",))).log, level="debug"
            ),
        )
        assert log.level() == "debug"
    finally:
        log.set_level(before)


def test_the_drain_is_read_when_it_is_time():
    """So there is nothing to apply."""
    turned("drain", drain=Drain(timeout_ms=1))
    assert graces_of(Config(upstream=Upstream(bootstrap_servers=("b:9092",))))
