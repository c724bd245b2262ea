"""Latency percentiles of the last minute, by client and by broker, from the core's meters."""

from proxy.admin.latency import (
    HALF_MS,
    MAX_KEYS,
    NODES_EVERY_MS,
    SLICE_KEYS,
    WAITING,
    Latencies,
    Window,
)
from proxy.core.stats.histogram import BUCKETS, bucket_of
from proxy.core.stats.meters import MeterBook
from tests.support.core.task_steps import task_steps
from wire.apis import OFFERED, RECORDS_IN_REPLIES

HEARTBEAT, PRODUCE, FETCH = 12, 0, 1


def parted(max_parts: int) -> MeterBook:
    """Return a meter book with meters of one client and broker."""
    book = MeterBook()
    book.part(max_parts)
    return book


def answered(book: MeterBook, client_id: str, ms: int, count: int, api: int = PRODUCE, node=1):
    meter = book.find(api, str(api), "alice", client_id, node)
    meter.upstream[bucket_of(ms * 1000)] += count


def near(found: tuple[float, float] | None, p50: float, p99: float) -> bool:
    """Return whether both values are within a bucket's width of the expected ones."""
    assert found is not None
    return p50 <= found[0] <= 1.1 * p50 and p99 <= found[1] <= 1.1 * p99


async def test_a_clients_latencies_are_added_over_its_apis_and_brokers():
    """Requests that wait at the broker on purpose are left out."""
    book = parted(10)
    answered(book, "a", 5, 90)
    answered(book, "a", 300, 10, HEARTBEAT, node=2)
    answered(book, "a", 9000, 500, FETCH)
    latencies = Latencies(book)
    await latencies.read([("alice", "a"), ("alice", "unknown")], 0)
    assert near(latencies.of("alice", "a"), 5, 300)
    assert latencies.of("alice", "unknown") is None


async def test_a_brokers_latencies_are_those_of_all_its_clients():
    """Its rate of replies includes long polls."""
    book = parted(10)
    answered(book, "a", 5, 1)
    latencies = Latencies(book)
    await latencies.read([], 0)
    answered(book, "a", 5, 60)
    answered(book, "b", 40, 40)
    answered(book, "b", 900, 100, FETCH)
    answered(book, "b", 7000, 100, node=2)
    await latencies.read([], NODES_EVERY_MS - 1)
    assert latencies.nodes[1].answers_per_s is None
    await latencies.read([], NODES_EVERY_MS)
    assert latencies.nodes[1].answers_per_s == 200 / (NODES_EVERY_MS / 1000)
    assert near(latencies.nodes[1].window.quantiles_ms, 5, 40)
    assert near(latencies.nodes[2].window.quantiles_ms, 7000, 7000)


def counts(ms: int, count: int) -> list[int]:
    made = [0] * BUCKETS
    made[bucket_of(ms * 1000)] = count
    return made


def test_a_window_has_the_replies_of_the_last_minute():
    """There are no percentiles without replies. Meters that were retired begin with smaller counts than before."""
    window = Window()
    window.read(counts(5, 10), 0)
    assert near(window.quantiles_ms, 5, 5)
    window.read(counts(5, 20), HALF_MS)
    assert near(window.quantiles_ms, 5, 5)
    window.read(counts(5, 20), 2 * HALF_MS - 1)
    assert near(window.quantiles_ms, 5, 5)
    window.read(counts(5, 20), 2 * HALF_MS)
    assert window.quantiles_ms is None

    window = Window()
    window.read(counts(5, 10), 0)
    window.read(counts(5, 10), HALF_MS)
    window.read(counts(70, 3), HALF_MS + 1)
    assert near(window.quantiles_ms, 70, 70)


async def test_a_read_visits_a_bounded_number_of_clients_and_each_in_turn():
    """The work of one read does not grow with the clients, and other tasks run in between."""
    many = 3 * MAX_KEYS
    book = parted(many)
    for n in range(many):
        answered(book, f"c{n}", 5, 1)
    keys = [("alice", f"c{n}") for n in range(many)]
    latencies = Latencies(book)
    with task_steps() as steps:
        for look in range(1, 4):
            await latencies.read(keys, look)
            assert sum(latencies.of(*key) is not None for key in keys) == look * MAX_KEYS
    assert steps.count >= 3 * MAX_KEYS // SLICE_KEYS


async def test_a_client_that_is_not_asked_for_any_more_is_dropped():
    """The memory of the latencies does not grow."""
    book = parted(10)
    answered(book, "a", 5, 1)
    latencies = Latencies(book)
    await latencies.read([("alice", "a")], 0)
    await latencies.read([], 1)
    assert latencies.of("alice", "a") is None


def test_every_long_poll_for_records_is_left_out():
    """It waits at the broker on purpose, under any API."""
    assert RECORDS_IN_REPLIES & OFFERED.keys() <= WAITING
