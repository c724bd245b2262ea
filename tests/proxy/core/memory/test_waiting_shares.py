"""Shares of the pool, combined with a bound on requests and with other waiting clients."""

import pytest

from proxy.core.engine import Engine
from proxy.core.memory.claim import HEAD_BYTES
from proxy.core.memory.slow_clients import ReadLimits
from tests.support.core.memory import Link, begun, finish, kept, small_engine, unread_bytes
from tests.support.core.uploads import Crowd, Upload
from tests.support.messages import frames as f

# -- shares and a bound on requests -------------------------------------------------------------


def sent(engine: Engine, number: int, size: int = 600, host: str = "10.0.0.9") -> Link:
    """Return a session whose request was sent whole and is read when its turn comes."""
    return Link(engine, host).client(kept(number, size))


def test_a_session_that_leaves_the_queue_of_a_share_keeps_no_memory():
    """The next session of the share gets the memory, and the count of requests is correct."""
    engine = small_engine(2000, max_share=0.25, requests=10)
    first, second, third = (begun(engine, n, 400, "10.0.0.1") for n in (1, 2, 3))
    fourth = begun(engine, 4, 400, "10.0.0.1")
    assert [link.waits for link in (first, second, third, fourth)] == [False, False, True, True]
    assert third.session.claim.line is fourth.session.claim.line is not None
    third.session.client_lost(engine.now_ms)
    assert len(engine.reservations) == 1
    finish(first, 1, 400)
    assert not fourth.waits
    assert third.session.claim.reserved_bytes == 0
    assert engine.reservations.requests == 2
    for link in (second, third, fourth):
        link.release()
    assert (
        engine.reservations.requests
        == len(engine.reservations)
        == engine.request_pool.used_bytes
        == 0
    )
    assert engine.reservations.reserved_bytes == 0


def test_a_session_whose_turn_comes_while_its_share_is_used_up_joins_the_shares_queue():
    """It was first in the common queue; later sessions of other shares are served, those of its share are not."""
    engine = small_engine(4000, max_share=0.5, requests=2)
    holder = begun(engine, 1, 2000, "10.0.0.1")
    other = Link(engine, "10.0.0.3")
    other.stuck = True
    other.client(f.heartbeat(1))  # the second request that is kept
    greedy, behind = sent(engine, 2, 600, "10.0.0.1"), sent(engine, 3, 600, "10.0.0.2")
    assert [link.waits for link in (greedy, behind)] == [True, True]
    other.unstick()
    greedy.give_turns()
    assert behind.to_broker == kept(3, 600)
    assert greedy.waits
    assert len(engine.reservations) == 1
    finish(holder, 1, 2000)
    greedy.give_turns()
    assert greedy.to_broker == kept(2, 600)
    assert engine.request_pool.used_bytes == engine.reservations.requests == 0


def test_a_session_whose_turn_comes_without_free_memory_waits_for_it():
    """Its size is known now. The next one has its turn, and a smaller request does not wait for the larger one."""
    engine = small_engine(4000, requests=2)
    engine.request_pool.force_allocate(2500)  # something that streams takes the rest
    holder, other = begun(engine, 1, 900), Link(engine)
    other.stuck = True
    other.client(f.heartbeat(1))
    first, second = sent(engine, 2, 900), sent(engine, 3, 60)
    other.stuck = False
    other.settle()  # the first has its turn
    first.give_turns()
    assert (first.waits, second.waits) == (True, False)
    assert len(engine.reservations) == 1
    claim = first.session.claim
    assert claim.line.places[claim].size_bytes == 900
    assert second.to_broker == kept(3, 60)
    late = sent(engine, 4, 60)
    engine.request_pool.release(2500)
    finish(holder, 1, 900)
    for link in (first, late):
        link.give_turns()
    assert (first.to_broker, late.to_broker) == (kept(2, 900), kept(4, 60))


# -- a share while others wait ------------------------------------------------------------------


def test_at_a_loopback_address_a_share_applies_while_others_wait():
    """One share may have the whole pool; while another one waits it gets no more, and has its turn later."""
    engine = small_engine(2000)
    greedy = [begun(engine, n, 500, "127.0.0.1") for n in range(6)]
    assert [link.waits for link in greedy] == [False] * 4 + [True] * 2
    other = begun(engine, 7, 500, "127.0.0.2")
    assert other.waits
    for n in range(3):
        finish(greedy[n], n, 500)
    assert not other.waits
    finish(greedy[3], 3, 500)
    finish(other, 7, 500)
    for n in (4, 5):
        assert not greedy[n].waits
        finish(greedy[n], n, 500)
    assert engine.request_pool.used_bytes == 0
    assert engine.reservations.reserved_bytes == 0


def test_a_long_head_needs_memory_like_a_body():
    """Many connections that were used send 60 KiB of a head each: most wait and hold one short read of it."""
    engine = small_engine(100_000)
    head = f.request(f.HEARTBEAT, 0, 1, bytes(10), client_id="c" * 32_000)
    links = [Link(engine) for _ in range(40)]
    for link in links:
        engine.newcomers.discard(link.session)
        link.client(head[:-11], chunk=1000)
    waiting = [link for link in links if link.waits]
    assert len(waiting) > 30
    assert max(len(link.session.client.carry) for link in waiting) <= HEAD_BYTES + 1000
    assert engine.request_pool.used_bytes < 2 * (65_536 + 32_000) + 40 * (HEAD_BYTES + 1000)
    for link in links:
        link.client(head[-11:])
    for _ in links:
        for link in links:
            link.give_turns()
            link.proceed()
    assert all(link.to_broker == head for link in links)
    assert engine.request_pool.used_bytes == engine.reservations.requests == 0


# -- from the line of a share into that of the pool ----------------------------------------------

KIB = 1 << 10


@pytest.fixture
def crowd() -> Crowd:
    """Clients of a pool of 8 MiB, of which one pair may have a quarter."""
    engine = small_engine(8 << 20, limits=ReadLimits(), max_share=0.25)
    engine.reservations.unread_bytes = unread_bytes
    return Crowd(engine, 20)


def stall(crowd: Crowd, host: str, size: int) -> Upload:
    """Let a client send a request but for 10 KiB, and then 50 bytes per second."""
    upload = Upload(crowd.engine, kept(1, size), 0.05, host)
    crowd.uploads.append(upload)
    upload.credit = size - 10 * KIB
    upload.send(0)
    return upload


@pytest.fixture
def moved(crowd) -> Upload:
    """Return a quick client that has waited for its share for ten seconds, and waits for memory now."""
    own = [stall(crowd, "10.1.0.1", size * KIB) for size in (1000, 1000, 60)]
    for number in range(6):
        stall(crowd, f"10.1.1.{number}", 1000 * KIB)
    quick = crowd.add(kept(2, 1000 * KIB), 10_000, "10.1.0.1")
    shares = crowd.engine.reservations._shares
    assert quick.link.session.claim.line in [share.line for share in shares.aside]
    for _ in range(500):
        crowd.step()
    for each in own[2:]:
        each.leave()
    crowd.step()
    parts = crowd.engine.reservations._parts
    assert quick.link.session.claim.line is parts.ordinary.line
    return quick


def test_it_is_not_placed_by_what_has_come_while_it_waited_for_its_share(moved) -> None:
    """The kernel holds 64 KiB of it after ten seconds, which is no rate: its client is not read."""
    claim = moved.link.session.claim
    assert claim.line.first().ends_ms <= moved.engine.now_ms + 5_000


def test_those_that_stall_yield_to_it_although_no_other_waits_for_memory(crowd, moved) -> None:
    """They would keep it out for a quarter of an hour."""
    assert crowd.await_done(moved, 60_000) <= 20_000
