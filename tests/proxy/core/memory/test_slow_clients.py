"""Slow clients: a frame that holds memory must arrive by a deadline and at a least rate."""

import pytest

from policies.api import Hold
from proxy.core.errors import CloseReason
from proxy.core.memory.claim import HEAD_BYTES, SHOWN_BYTES
from proxy.core.memory.slow_clients import START_MS, ReadLimits
from tests.support.core.memory import Keeper, Link, kept, small_engine
from tests.support.messages import frames as f

SIZE = 200_000
LIMITS = ReadLimits()


def begun(limits: ReadLimits = LIMITS, **options) -> Link:
    """Return a session that has sent 100 bytes of a large request."""
    return Link(small_engine(1 << 20, limits=limits, **options)).client(kept(1, SIZE)[:100])


def test_a_client_that_sends_almost_nothing_is_closed_after_a_short_time():
    """A byte every ten seconds is too slow; the reason and the figures are reported."""
    link = begun()
    link.advance(START_MS - 1)
    assert not link.session.ended
    link.client(b"\x00")
    link.advance(1)
    assert link.session.ended
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert link.session.detail == f"101 of {SIZE} bytes of a request in {START_MS} ms"
    assert link.engine.request_pool.used_bytes == 0
    assert link.given_turns > 0
    link.release()
    assert link.engine.timers.next_ms() is None


def drip(link: Link, seconds: int, rate: int, size: int = SIZE) -> None:
    """Let so many seconds pass while the client sends so many bytes in each."""
    for _ in range(seconds):
        at = size - link.session.request_left
        link.client(kept(1, size)[at : at + rate])
        link.advance(1000)


def test_a_slow_client_is_not_closed_while_no_other_needs_its_memory():
    """It sends more than the least rate for longer than the deadline, and its request is forwarded."""
    link = begun()
    drip(link, 120, 1100)
    assert not link.session.ended
    link.client(kept(1, SIZE)[-link.session.request_left :])
    assert link.to_broker == kept(1, SIZE)


@pytest.mark.parametrize(("host", "closed_s"), [("10.0.0.9", 30), ("10.0.0.7", 23)])
def test_a_slow_client_is_closed_if_a_faster_one_needs_its_memory(host, closed_s):
    """Over an equal share it is closed soon, else at its deadline; the reason says why. The faster one is served."""
    size = 400_000
    engine = small_engine(size, limits=LIMITS)
    slow, other = Link(engine).client(kept(1, size)[:100]), Link(engine, host)
    second = 0
    while not slow.session.ended:
        second += 1
        drip(slow, 1, 8000, size)
        if second == 22:
            other.client(kept(2, 350_000))
            assert other.waits
    assert slow.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert slow.session.detail.endswith("ms, while others need its memory")
    other.give_turns()
    assert other.to_broker == kept(2, 350_000)
    assert second == closed_s


def test_each_frame_has_its_own_deadline():
    """One timer serves all frames; it is not set again for frames that arrive at once."""
    link = begun()
    timer = link.session.claim.timer
    link.advance(4000)
    link.client(kept(1, SIZE)[100:])
    link.client(kept(2, SIZE)[:50_000])
    assert link.session.claim.timer is timer
    link.advance(START_MS - 1)
    assert not link.session.ended
    link.client(kept(2, SIZE)[50_000:])
    assert link.to_broker == kept(1, SIZE) + kept(2, SIZE)
    link.advance(60_000)
    assert not link.session.ended
    assert link.session.claim.timer is None
    link.client(kept(3, 500))
    assert link.session.claim.timer is None


@pytest.mark.parametrize("limits", [ReadLimits(0, 0), ReadLimits(30_000, 0), ReadLimits(0, 1024)])
def test_each_limit_can_be_switched_off(limits):
    """0 means no limit."""
    link = begun(limits)
    link.advance(START_MS)
    assert link.session.ended == bool(limits.bytes_per_second)
    link.advance(30_000)
    assert link.session.ended == bool(limits.bytes_per_second)  # none needs its memory


def test_the_time_of_a_frame_starts_with_its_reservation():
    """It was not read before."""
    engine = small_engine(SIZE, limits=LIMITS)
    engine.request_pool.force_allocate(SIZE)
    link = Link(engine)
    link.session.client.keep(kept(1, SIZE)[:20])
    link.client(kept(1, SIZE)[20:40])
    assert link.waits
    engine.advance(20_000)
    engine.request_pool.release(SIZE)
    link.give_turns()
    assert not link.waits
    link.advance(START_MS - 1)
    assert not link.session.ended
    link.advance(1)
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT


def waiting(
    limits: ReadLimits = LIMITS, sent: bytes = kept(2, SIZE)[:128], unread_bytes: int = 0, **options
) -> Link:
    """Return a session that waits, because all memory is used, with this many unread bytes in the kernel."""
    engine = small_engine(SIZE, limits=limits, **options)
    engine.request_pool.force_allocate(2 * SIZE)
    link = Link(engine)
    engine.reservations.unread_bytes = lambda s: len(s.handle.unread) + unread_bytes
    link.client(sent)
    assert link.waits
    return link


def test_a_waiting_client_that_sent_too_little_is_closed():
    """It would otherwise reserve memory in its turn without using it. The next client takes its place."""
    link = waiting()
    behind = Link(link.engine).client(kept(3))
    assert behind.waits
    link.advance(START_MS - 1)
    assert not link.session.ended
    link.advance(1)
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert link.session.detail == (
        f"128 of {SIZE} bytes of a request that waits for memory in {START_MS} ms"
    )
    assert link.given_turns > 0
    assert len(link.engine.reservations) == 1
    link.engine.request_pool.release(2 * SIZE)
    behind.give_turns()
    assert behind.to_broker == kept(3)


@pytest.mark.parametrize(
    ("sent", "unread_bytes"),
    [
        (kept(2, SIZE)[:128], SHOWN_BYTES - 128),
        (kept(2, SIZE)[:128], 128 << 10),
        (kept(2, SIZE)[:SHOWN_BYTES], 0),
        (kept(2, 300), 0),
        (kept(2, 300)[:200], 100),
    ],
)
def test_a_waiting_client_that_sent_enough_may_wait_for_ever(sent, unread_bytes):
    """Enough is some KiB, read or unread, or a whole smaller request. Its time starts with its reservation."""
    link = waiting(sent=sent, unread_bytes=unread_bytes)
    link.advance(10 * 60_000)
    assert link.waits
    assert link.session.claim.timer is None
    link.engine.request_pool.release(2 * SIZE)
    assert not link.waits
    link.advance(START_MS - 1)
    assert not link.session.ended


@pytest.mark.parametrize(
    ("limits", "closed_ms"),
    [
        (ReadLimits(0, 0), None),
        (ReadLimits(30_000, 0), 30_000),
        (ReadLimits(30_000, 100), 10_000),
        (ReadLimits(0, 20), 50_000),
        (ReadLimits(7_000, 20), 7_000),
    ],
)
def test_the_bytes_a_waiting_client_must_send_follow_from_the_limits(limits, closed_ms):
    """1,000 bytes are enough for as long as they exceed the least rate; at the deadline they are too few."""
    link = waiting(limits, kept(2, SIZE)[:400], 600)
    last_ms = closed_ms or 600_000
    for at_ms in range(1000, last_ms, 1000):
        link.advance(1000)
        assert not link.session.ended, at_ms
    link.advance(1010)
    assert link.session.ended is (closed_ms is not None)


def test_a_waiting_client_at_the_least_rate_may_wait():
    """Its unread bytes grow by 1,100 a second."""
    link = waiting()
    shown = 128
    link.engine.reservations.unread_bytes = lambda _: shown - 128
    for _ in range(20):
        shown += 1100
        link.advance(1000)
    assert link.waits


def test_without_the_number_of_unread_bytes_no_waiting_client_is_closed():
    """The shell sets the function that returns it."""
    link = waiting()
    link.engine.reservations.unread_bytes = None
    link.advance(100_000)
    assert link.waits


def test_clients_that_wait_for_a_share_or_a_number_are_judged_alike():
    """A client may wait over its share of the pool, or over the number of requests with its size unknown."""
    engine = small_engine(1 << 20, limits=LIMITS, max_share=0.1)
    engine.reservations.unread_bytes = lambda _: 0
    first = Link(engine).client(kept(1, SIZE)[:-1])
    second = Link(engine).client(kept(2, SIZE)[:100])
    assert (first.waits, second.waits) == (False, True)
    engine.advance(START_MS)
    assert second.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    engine = small_engine(1 << 20, limits=LIMITS, requests=1)
    engine.reservations.unread_bytes = lambda _: 0
    engine.reservations.one_more()
    unsized, whole = Link(engine).client(kept(1, SIZE)[:3]), Link(engine).client(kept(2))
    assert unsized.waits
    engine.advance(START_MS)
    assert unsized.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert whole.waits
    assert not whole.session.ended


def test_a_client_under_backpressure_of_its_broker_is_not_slow():
    """Its time starts again when the broker reads."""
    link = Link(small_engine(1 << 20, limits=LIMITS))
    link.stuck = True
    link.client(f.heartbeat(1))
    link.stuck = False
    link.session.broker.put(f.heartbeat(2))
    link.client(kept(1, SIZE)[:100])
    link.stuck = True
    link.session.broker.put(f.heartbeat(2))
    link.settle()
    link.advance(60_000)
    assert not link.session.ended
    link.unstick()
    link.advance(60_000)
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT


def test_a_client_that_does_not_read_its_replies_is_slow():
    """The client causes its own mute and holds memory meanwhile."""
    link = begun()
    link.session.client.mute(8)  # BACKPRESSURE, for replies that it does not read
    link.advance(START_MS)
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT


def test_a_parked_request_is_not_slow():
    """All its bytes have arrived."""
    link = Link(small_engine(1 << 20, Keeper(lambda _: Hold(90_000, "key")), limits=LIMITS))
    link.client(kept(1, SIZE)[:100]).client(kept(1, SIZE)[100:])
    assert link.session.held is not None
    link.advance(80_000)
    assert not link.session.ended


def test_a_streamed_request_has_no_deadline():
    """It holds no memory."""
    link = Link(small_engine(1 << 20, limits=LIMITS)).client(f.produce(1, size_bytes=5000)[:100])
    link.advance(100_000)
    assert not link.session.ended
    assert link.session.claim.timer is None


def test_a_long_head_that_does_not_end_is_slow():
    """An ordinary head is shorter and has no deadline."""
    head = f.request(f.PRODUCE, 3, 1, f.string("x" * 20_000))
    short = Link(small_engine(1 << 20, limits=LIMITS)).client(head[:1000])
    assert short.session.claim.timer is None
    link = Link(small_engine(1 << 20, limits=LIMITS)).client(head[: HEAD_BYTES + 1])
    link.advance(START_MS)
    assert link.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert f"{HEAD_BYTES + 1} of the beginning of a request" in link.session.detail
