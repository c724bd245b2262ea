"""Meters count requests, by API or by API and client."""

from policies.api import Outcome
from proxy.core.stats.histogram import bucket_of
from proxy.core.stats.meters import STAGES, Meter, MeterBook


def test_the_number_of_replies_is_the_count_of_the_upstream_histogram() -> None:
    """The fast loop adds to one place only."""
    meter = Meter(12, "Heartbeat")
    for us in (5, 70, 70_000_000):
        meter.upstream[bucket_of(us)] += 1
    meter.outcomes[Outcome.EXPIRED] += 2
    assert meter.replied == meter.outcome(Outcome.REPLIED) == 3
    assert meter.outcome(Outcome.EXPIRED) == 2
    assert meter.outcome(Outcome.ANSWERED) == 0


def test_a_stage_has_a_histogram_after_its_first_wait() -> None:
    """Most APIs never wait in most stages and need no list for them."""
    meter = Meter(0, "Produce")
    assert meter.waits == {}
    meter.count_wait("throttle", 900)
    meter.count_wait("throttle", 900)
    assert list(meter.waits) == ["throttle"]
    assert meter.waits["throttle"][bucket_of(900)] == 2
    assert "throttle" in STAGES


def test_all_clients_of_an_api_share_its_meter() -> None:
    """With `by_key` each client has its own."""
    book = MeterBook()
    one = book.find(0, "Produce", "alice", "a")
    assert book.find(0, "Produce", "bob", "b") is one
    assert (one.user, one.client_id) == ("", "")
    assert book.find(1, "Fetch", "alice", "a") is not one
    assert book.each() == (one, book.find(1, "Fetch", "", ""))


def test_the_meter_of_an_api_is_the_sum_of_its_clients_meters() -> None:
    """Sums are sorted by API key, and they are copies."""
    book = MeterBook(by_key=True)
    fetch, alice, bob = (
        book.find(1, "Fetch", "alice", "a"),
        book.find(0, "Produce", "alice", "a"),
        book.find(0, "Produce", "bob", "b"),
    )
    for meter, us in ((fetch, 3), (alice, 5), (bob, 5), (bob, 700)):
        meter.upstream[bucket_of(us)] += 1
        meter.request_bytes += 10
        meter.response_bytes += 20
    alice.count_wait("throttle", 100)
    bob.count_wait("throttle", 100)
    bob.count_wait("purgatory", 100)
    alice.left("expired", 100)
    bob.left("expired", 100)
    bob.outcomes[Outcome.EXPIRED] += 1
    for _ in range(2):
        produce, fetched = book.by_api()
        assert (produce.name, produce.replied, fetched.name, fetched.replied) == (
            *("Produce", 3),
            *("Fetch", 1),
        )
        assert produce.waits["throttle"][bucket_of(100)] == 2
        assert produce.waits["purgatory"][bucket_of(100)] == 1
        assert produce.parked["expired"][bucket_of(100)] == 2
        assert not fetched.parked
        assert produce.outcome(Outcome.EXPIRED) == 1
        assert (produce.request_bytes, produce.response_bytes) == (30, 60)


def test_a_retired_meter_stays_in_the_sum() -> None:
    """A counter never falls; the meter itself is not listed any more, and is retired once."""
    book = MeterBook(by_key=True)
    meter = book.find(0, "Produce", "alice", "a")
    meter.upstream[7] += 4
    book.retire(meter)
    assert book.each() == ()
    assert [each.replied for each in book.by_api()] == [4]
    again = book.find(0, "Produce", "alice", "a")
    assert again is not meter
    again.upstream[7] += 1
    book.retire(meter)
    assert book.each() == (again,)
    assert [each.replied for each in book.by_api()] == [5]


def parted(max_parts: int) -> MeterBook:
    """Return a book with meters of one client and broker."""
    book = MeterBook()
    book.part(max_parts)
    return book


def test_meters_of_one_client_and_broker_are_bounded() -> None:
    """Further pairs share one meter; the sums by API are the same with and without them."""
    book = parted(2)
    first = book.find(0, "Produce", "alice", "a", 1)
    second = book.find(0, "Produce", "alice", "a", 2)
    shared = book.find(0, "Produce", "bob", "b", 1)
    assert book.find(0, "Produce", "alice", "a", 2) is second
    assert book.find(0, "Produce", "carol", "c", 3) is shared
    assert [(each.user, each.node) for each in book.each()] == [
        ("alice", 1),
        ("alice", 2),
        ("", None),
    ]
    for meter in (first, second, shared):
        meter.upstream[9] += 1
    assert [each.replied for each in book.by_api()] == [3]
    assert book.of("alice", "a") == [first, second]


def test_a_retired_meter_makes_room_for_another_client() -> None:
    """It is retired at the second sweep without a connection."""
    book = parted(1)
    book.find(0, "Produce", "alice", "a", 1).upstream[9] += 1
    book.sweep(())
    assert book.find(0, "Produce", "bob", "b", 1).user == ""
    book.sweep({("alice", "a")})
    book.sweep(())
    book.sweep(())
    assert book.of("alice", "a") == ()
    assert [each.replied for each in book.by_api()] == [1]
