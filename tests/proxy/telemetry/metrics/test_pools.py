"""The metrics of the memory pools, after KIP-72's sensors."""

import pytest

from tests.support.telemetry.metrics_page import listen, read

NONE = {"request": 0.0, "response": 0.0}


def shown(metrics, name: str) -> dict[str, float]:
    return {pool: value for (pool,), value in read(metrics).get(f"sluice_pool_{name}", {}).items()}


def test_a_bounded_pool_shows_its_free_bytes_and_an_unbounded_one_no_size() -> None:
    """They are negative when the pool is overdrawn."""
    wire, metrics = listen()
    wire.engine.request_pool.force_allocate(500)

    assert shown(metrics, "used_bytes") == {"request": 500, "response": 0}
    assert shown(metrics, "size_bytes") == shown(metrics, "available_bytes") == {}
    wire.engine.request_pool.release(500)

    wire, metrics = listen()
    pool = wire.engine.reply_pool
    pool.resize(1000)
    pool.force_allocate(1200)

    assert shown(metrics, "size_bytes") == {"response": 1000}
    assert shown(metrics, "available_bytes") == {"response": -200}
    pool.release(1200)


def test_the_time_of_a_depletion_is_counted_while_it_lasts() -> None:
    """It is shown in seconds in total, and as a share of the last half minute."""
    wire, metrics = listen()
    pool = wire.engine.request_pool
    pool.resize(100)
    for _ in range(20):
        wire.advance(1000)
    assert shown(metrics, "depleted_seconds_total") == NONE
    pool.force_allocate(100)
    pool.refuse()
    for _ in range(6):
        wire.advance(1000)
    during = shown(metrics, "depleted_seconds_total"), shown(metrics, "depleted_ratio")
    pool.release(100)
    for _ in range(40):
        wire.advance(1000)

    assert during[0] == {"request": pytest.approx(6.0), "response": 0}
    assert during[1]["request"] == pytest.approx(6 / 25, abs=0.03)
    assert shown(metrics, "depleted_seconds_total")["request"] == pytest.approx(6.0)
    assert shown(metrics, "depleted_ratio") == NONE


def test_a_page_before_the_first_second_has_no_share() -> None:
    """The share needs two readings."""
    wire, metrics = listen()
    wire.engine.request_pool.resize(10)
    wire.engine.request_pool.force_allocate(10)
    wire.engine.request_pool.refuse()

    assert shown(metrics, "depleted_ratio") == NONE
    wire.engine.request_pool.release(10)
