"""A request that came fast at first, and hardly comes any more, yields its memory to those that wait."""

import pytest

from proxy.core.errors import CloseReason
from proxy.core.memory.slow_clients import ReadLimits
from tests.support.core.memory import Keeper, begun, kept, small_engine, unread_bytes
from tests.support.core.uploads import Crowd, Upload

KIB = 1 << 10
ALMOST = 990 * KIB
STEADY = 300
"""Bytes per millisecond: such a request needs less than five seconds, and is never closed for others."""


@pytest.fixture
def crowd() -> Crowd:
    """Clients of a pool of 8 MiB, in which each request is kept whole."""
    engine = small_engine(8 << 20, Keeper(), limits=ReadLimits())
    engine.reservations.unread_bytes = unread_bytes
    return Crowd(engine, 20)


def stall(crowd: Crowd, number: int, size: int = 1000 * KIB, sent: int = ALMOST) -> Upload:
    """Let a client send most of its request at once, and then 50 bytes per second."""
    upload = Upload(crowd.engine, kept(number, size), 0.05, f"10.1.0.{number}")
    crowd.uploads.append(upload)
    upload.credit = sent
    upload.send(0)
    return upload


@pytest.mark.parametrize("size", [2 * KIB, 900 * KIB])
def test_others_wait_seconds_for_those_that_stall_near_their_ends(crowd, size: int) -> None:
    """Their mean rates stay high for minutes; what they send now is next to nothing."""
    stalled = [stall(crowd, number) for number in range(10)]
    for _ in range(100):
        crowd.step()
    steady = crowd.add(kept(50, 1000 * KIB), STEADY, "10.2.0.1")
    honest = crowd.add(kept(60, size), 10_000, "10.3.0.1")
    assert crowd.await_done(honest, 60_000) <= 5_000
    crowd.await_done(steady, 60_000)
    assert not steady.is_cut
    reasons = {each.link.session.reason for each in stalled if each.is_cut}
    assert reasons == {CloseReason.REQUEST_READ_TIMEOUT}


def test_one_that_holds_the_last_place_yields_even_below_its_share(crowd) -> None:
    """Many small holders fill the pool; the one that may exceed it stalls, and would keep all others out."""
    for number in range(19):
        stall(crowd, number, 400 * KIB, 390 * KIB)
    for _ in range(100):
        crowd.step()
    assert not any(each.is_cut for each in crowd.uploads)
    honest = crowd.add(kept(60, 2 * KIB), 10_000, "10.3.0.1")
    assert crowd.await_done(honest, 60_000) <= 5_000


def test_none_is_closed_while_no_other_waits(crowd) -> None:
    """A request that stalls keeps its memory while there is enough."""
    stalled = stall(crowd, 1)
    for _ in range(1000):
        crowd.step()
    assert not stalled.is_cut


@pytest.fixture
def kept_crowd() -> Crowd:
    """Clients of a pool of 400 kB."""
    engine = small_engine(400_000, Keeper(), limits=ReadLimits())
    engine.reservations.unread_bytes = unread_bytes
    return Crowd(engine, 100)


def test_time_that_a_request_waits_for_memory_does_not_make_it_slow(kept_crowd) -> None:
    """Two at 2 kB/s want the whole pool: the second waits for minutes inside its request, and then ends."""
    both = [kept_crowd.add(kept(n, 400_000), 2, f"10.1.0.{n}") for n in range(2)]
    for each in both:
        kept_crowd.await_done(each, 600_000)
        assert each.is_done
    assert kept_crowd.engine.now_ms > 250_000  # one after the other


@pytest.mark.parametrize("pause_ms", [0, 5_000])
def test_slow_requests_leave_a_quarter_of_the_pool_to_larger_ones(kept_crowd, pause_ms) -> None:
    """Twenty slow ones have half of it, and one of them takes more; a larger one that comes quickly passes at once."""
    slow = [kept_crowd.add(kept(n, 300_000), 2, f"10.1.0.{n}") for n in range(20)]
    parts = kept_crowd.engine.reservations._parts
    for _ in range(100):
        kept_crowd.step()
        beyond_bytes = parts.slow.first_bytes
        assert kept_crowd.engine.request_pool.used_bytes - beyond_bytes <= 200_000
    for _ in range(5):
        large = kept_crowd.add(kept(50, 99_000), 10_000, "10.2.0.1")
        assert kept_crowd.await_done(large, 60_000) == 0
        for _ in range(pause_ms // 100):
            kept_crowd.step()
    assert parts.slow.first is not None
    assert not any(each.is_cut for each in slow)


def test_slow_requests_that_are_near_their_ends_leave_as_much_to_larger_ones(kept_crowd) -> None:
    """Six of half the pool take 50 s each. Also in their last 30 s, which is the read timeout, they count as slow."""
    slow = [kept_crowd.add(kept(n, 200_000), 4, f"10.1.0.{n}") for n in range(6)]
    for _ in range(50):
        for _ in range(10):
            kept_crowd.step()
        large = kept_crowd.add(kept(50, 90_000), 10_000, "10.2.0.1")
        assert kept_crowd.await_done(large, 60_000) == 0
    assert not any(each.is_cut for each in slow)


def test_those_that_hardly_send_while_they_wait_count_as_slow() -> None:
    """They came fast at first, so they took all they could get; two minutes later no other waits for them."""
    engine = small_engine(64 << 20, Keeper(), limits=ReadLimits())
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine, 500)
    for number in range(200):
        crowd.add(kept(1, 20_000_000), 10, f"10.1.0.{number}").credit += 500_000
    for _ in range(12):
        for _ in range(20):
            crowd.step()
        honest = crowd.add(kept(2, 10_000_000), 10_000, "10.3.0.1")
    assert crowd.await_done(honest, 60_000) <= 1_000


def test_what_came_while_a_request_waited_does_not_make_it_stall_before_it_is_read() -> None:
    """It counts with the time in which it came. Six at 1.1 kB/s, which is fast enough, want most of a pool each."""
    engine = small_engine(50_000, Keeper(), limits=ReadLimits())
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine, 20)
    for number in range(6):
        crowd.add(kept(number, 37_500), 1.1, f"10.1.0.{number}")
        for _ in range(15):
            crowd.step()
    for each in crowd.uploads:
        crowd.await_done(each, 100_000)
    assert [each.link.session.detail for each in crowd.uploads] == [""] * 6


def test_a_request_that_waits_is_looked_at_once_a_second() -> None:
    """Its time stands still, so one that is hardly fast enough would otherwise be found due again and again."""
    engine = small_engine(50_000, Keeper(), limits=ReadLimits())
    link = begun(engine, 1, 20_000)
    claim = link.session.claim
    for _ in range(6):  # 6,100 bytes in 5.9 s, which are enough until 5,957 ms
        link.client(bytes(1000))
        engine.advance(engine.now_ms + 983)
    engine.reservations._enqueue(claim, 4096, engine.reservations._parts.ordinary.line)
    looks = 0
    for _ in range(10_000):
        timer = claim.timer
        engine.advance(engine.now_ms + 1)
        looks += claim.timer is not timer
    assert looks <= 10
    assert not link.session.ended
