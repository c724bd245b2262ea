"""What may change live is applied where it counts."""

from __future__ import annotations

import msgspec
import pytest

from proxy.config import Config, Drain, Limits, Purgatory, Upstream
from proxy.config.model import Memory
from proxy.config.telemetry import Traces
from proxy.core.delayed import Graces
from proxy.knobs import graces_of, knobs
from proxy.telemetry import log
from tests.support.sessions import make_engine


class Door:
    """As much of a Reception as is turned."""

    most_connections = 0


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


def test_the_largest_request():
    """What comes from now on is judged by it."""
    engine, _, _ = turned(
        "limits.socket_request_max_bytes", limits=Limits(socket_request_max_bytes=4096)
    )
    assert engine.request_max_bytes == 4096


def test_how_many_may_connect():
    """The door knows at once."""
    _, door, _ = turned("limits.max_connections", limits=Limits(max_connections=7))
    assert door.most_connections == 7


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


def test_the_purgatory():
    """Its graces and how often it is purged."""
    section = Purgatory(produce_grace_ms=-200, fetch_grace_ms=300, purge_interval_requests=17)
    engine, _, _ = turned("purgatory", purgatory=section)
    assert engine.graces == Graces(-200, 300, section.wait_most_ms)
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
