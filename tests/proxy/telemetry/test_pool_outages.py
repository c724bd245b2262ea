"""Lines about depleted pools: one per pool and ten seconds, and the last count is always told."""

from proxy.telemetry.pool_outages import POOL_EVERY_MS


def test_a_depletion_of_a_pool_is_logged_and_so_is_its_end(lines):
    """The first line names the pool and the effect, the second has the duration; each pool has its own."""
    written = lines()
    written.observer.on_pool_depleted("requests")
    written.observer.on_pool_depleted("replies")
    depleted, replies = written.take()
    assert (depleted["event"], depleted["pool"]) == ("pool_depleted", "requests")
    assert "wait" in depleted["effect"]
    assert "times" not in depleted
    assert replies["effect"] != depleted["effect"]
    written.advance(12_000)
    assert written.take() == [], "it is dry, and that was said"
    written.observer.on_pool_recovered("requests", 12_000)
    (recovered,) = written.take()
    assert (recovered["event"], recovered["pool"]) == ("pool_recovered", "requests")
    assert (recovered["times"], recovered["depleted_ms"]) == (1, 12_000)
    assert "effect" not in recovered


def test_frequent_depletions_of_a_pool_are_summed_up(lines):
    """A line has their number and duration since the last one and the present state; the last is followed by none."""
    written = lines()
    for _ in range(250):  # 25 seconds, depleted for six tenths of the time
        written.observer.on_pool_depleted("requests")
        written.advance(60)
        written.observer.on_pool_recovered("requests", 60)
        written.advance(40)
    written.advance(2 * POOL_EVERY_MS)
    told = written.take()
    assert len(told) == 4
    assert sum(line.get("times", 0) for line in told) == 250
    assert sum(line.get("depleted_ms", 0) for line in told) == 250 * 60
    assert told[-1]["event"] == "pool_recovered"
    assert written.timers.next_ms() is None
    written.advance(POOL_EVERY_MS)
    written.observer.on_pool_depleted("requests")
    (line,) = written.take()
    assert (line["event"], "times" in line) == ("pool_depleted", False)


def test_the_end_of_the_process_tells_what_waits_for_its_time(lines):
    """Its timer then logs nothing more."""
    written = lines()
    for _ in range(3):
        written.observer.on_pool_depleted("requests")
        written.observer.on_pool_recovered("requests", 60)
    assert len(written.take()) == 1
    written.observer.close(0)
    (line,) = written.take()
    assert (line["event"], line["times"]) == ("pool_recovered", 3)
    written.advance(2 * POOL_EVERY_MS)
    assert written.take() == []
