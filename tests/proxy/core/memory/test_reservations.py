"""Reservations of requests: steps of memory, the line for it, its order, and clients that never wait."""

import pytest

from policies.api import Forward, Patch, Reject, Throttle
from proxy.core.memory.reservations import MIN_STEP_BYTES
from proxy.core.session.channel import Mute
from tests.support.core.memory import (
    Keeper,
    Link,
    begun,
    finish,
    kept,
    request_bytes_of,
    small_engine,
)
from tests.support.core.policies import Recorder
from tests.support.core.sessions import forget_ready
from tests.support.messages import frames as f
from wire.errors import ErrorCode


def test_memory_is_reserved_for_what_has_arrived_and_a_step_more():
    """The step is as much again, from 4 to 256 KiB; a frame in one step is reserved once."""
    engine = small_engine(16 << 20)
    pool, size = engine.request_pool, 100_000
    link = Link(engine).client(kept(1, size)[:100])
    claim = link.session.claim
    assert pool.used_bytes == claim.reserved_bytes == 100 + MIN_STEP_BYTES
    link.client(kept(1, size)[100:10_000])
    assert pool.used_bytes == claim.reserved_bytes == 20_000
    link.client(kept(1, size)[10_000:60_000])
    assert pool.used_bytes == size
    link.stuck = True
    link.client(kept(1, size)[60_000:])
    assert pool.used_bytes == size  # its broker does not take it
    link.unstick()
    assert pool.used_bytes == 0
    assert link.to_broker == kept(1, size)


def test_a_client_waits_inside_its_request_when_its_next_step_is_refused():
    """It is not read meanwhile, keeps the memory that it has, and is read again when memory is released."""
    engine = small_engine(1 << 20)
    first, second = (Link(engine).client(kept(1, 900_000)[:1000]) for _ in range(2))
    engine.request_pool.force_allocate(1_000_000)
    for link in (first, second):
        link.client(kept(1, 900_000)[1000:600_000])
    assert [link.waits for link in (first, second)] == [False, True]  # one may exceed the pool
    assert second.session.claim.reserved_bytes >= second.session.gathered_bytes > 1000
    assert engine.request_pool.is_depleted
    first.client(kept(1, 900_000)[600_000:])
    assert first.to_broker == kept(1, 900_000)
    assert not second.waits
    engine.request_pool.release(1_000_000)
    second.client(kept(1, 900_000)[600_000:])
    assert second.to_broker == kept(1, 900_000)
    assert engine.request_pool.used_bytes == engine.reservations.reserved_bytes == 0
    assert not engine.request_pool.is_depleted


def test_those_that_wait_are_served_by_when_they_would_end():
    """A whole request does not wait for incomplete ones; one with little left comes before one with much."""
    engine = small_engine(4000)
    holder = begun(engine, size=4000)
    links = [begun(engine, size=size) for size in (3000, 2000)]
    links.append(Link(engine).client(kept(1, 400)))
    room = engine.reservations
    assert [link.waits for link in links] == [True, True, False]
    assert len(room) == 2
    assert links[2].to_broker == kept(1, 400)
    finish(holder, size=4000)
    assert [link.waits for link in links] == [True, False, False]
    for link, size in ((links[1], 2000), (links[0], 3000)):
        assert not link.waits
        finish(link, size=size)
        assert link.to_broker == kept(1, size)
    assert engine.request_pool.used_bytes == 0
    assert not engine.request_pool.is_depleted


def test_larger_requests_leave_a_part_of_the_pool_to_ordinary_ones():
    """An ordinary one, up to 1 MiB or an eighth of the pool, is admitted beside one that exceeds the pool."""
    engine = small_engine(80_000)
    large = [Link(engine).client(kept(1, 80_000)[:60_000]) for _ in range(3)]
    assert [link.waits for link in large] == [False, True, True]
    ordinary = [Link(engine).client(kept(1, 10_000)[:9_999]) for _ in range(3)]
    assert [link.waits for link in ordinary] == [False, False, True]
    for link in ordinary:
        link.client(kept(1, 10_000)[9_999:])
    assert [link.to_broker for link in ordinary] == [kept(1, 10_000)] * 3
    for link in large:
        link.client(kept(1, 80_000)[60_000:])
    assert [link.to_broker for link in large] == [kept(1, 80_000)] * 3
    assert engine.request_pool.peak_bytes < 2 * 80_000


@pytest.mark.parametrize("bounds", [{"pool": 1000}, {"pool": 1 << 20, "requests": 1}])
@pytest.mark.parametrize("size", [2000, 9000])
def test_each_client_is_served_once_before_any_is_served_twice(bounds, size):
    """There is memory for one request; the clients send three each, one after the other, and take turns."""
    engine = small_engine(**{**bounds, "pool": max(size, bounds["pool"])})
    links = [Link(engine) for _ in range(20)]
    for link in links:
        link.stuck = True  # so that it keeps its memory until its request is forwarded
        link.client(kept(1, size))
    done = []
    for turn in range(3 * len(links)):
        (holder,) = [link for link in links if link.session.broker.outbox]
        done.append(links.index(holder))
        holder.stuck = False
        holder.settle()
        holder.stuck = True
        holder.proceed()
        holder.client(kept(turn, size))
        holder.give_turns()
    assert done == 3 * list(range(len(links)))


def test_a_client_that_is_granted_memory_keeps_its_place_until_it_is_read():
    """No other client takes its place; if it ends instead, the next one is granted the memory."""
    engine = small_engine(1 << 20, requests=1)
    first, second, third, late = (Link(engine) for _ in range(4))
    first.stuck = True
    for link in (first, second, third):
        link.client(kept(1))
    first.stuck = False
    first.settle()  # there is memory, and no client has had a turn yet
    assert (second.waits, third.waits) == (False, True)
    late.send(kept(1))
    assert late.waits
    second.session.client_lost(engine.now_ms)
    assert (third.waits, late.waits) == (False, True)
    third.give_turns()
    assert third.to_broker == late.to_broker == kept(1)
    assert len(engine.reservations) == 0


def test_incomplete_requests_of_waiting_clients_never_block_all_clients():
    """They alone fill the pool: the first client in the queue is served, one at a time."""
    engine = small_engine(1000, Keeper(), Recorder(lambda _: Throttle(100), apis={f.HEARTBEAT}))
    throttled = [Link(engine).client(f.heartbeat(1)) for _ in range(4)]
    for link in throttled:
        link.session.client.keep(kept(1, 600)[:300])  # read before the mute
    forget_ready(engine)
    assert engine.request_pool.is_out_of_memory()
    for link in throttled:
        link.advance(100)
    assert [link.waits for link in throttled].count(False) == 1
    for _ in range(4):
        for link in throttled:
            if not link.waits and link.to_broker == f.heartbeat(1):
                link.client(kept(1, 600)[300:])
                link.give_turns()
    assert [link.to_broker for link in throttled] == [f.heartbeat(1) + kept(1, 600)] * 4


def test_only_a_client_before_its_requests_body_is_muted_for_memory():
    """A client is not muted when it holds memory or is inside a streamed frame, but after the frame's size."""
    engine = small_engine(600)
    passing = Link(engine).client(f.produce(1, size_bytes=500)[:100])
    holder = begun(engine)
    sized, silent = Link(engine), Link(engine)
    sized.session.client.keep(kept(1)[:8])
    forget_ready(engine)
    assert engine.request_pool.is_out_of_memory()
    holder.client(kept(1, 600)[100:200])
    passing.client(f.produce(1, size_bytes=500)[100:200])
    sized.client(kept(1)[8:50])
    silent.client(kept(1)[:4])
    assert [each.waits for each in (holder, passing, sized, silent)] == [False, False, True, False]
    assert silent.unread == b""
    silent.client(kept(1)[4:])
    assert silent.waits
    assert passing.to_broker == f.produce(1, size_bytes=500)[:200]
    finish(holder)
    assert not sized.waits
    assert not silent.waits
    assert silent.to_broker == kept(1)


def test_other_reasons_to_be_muted_survive_a_recovery():
    """A throttled client that waited for memory is not read before its throttle ends."""
    throttling = Recorder(apis={f.HEARTBEAT}, hear=lambda _: Throttle(500))
    engine = small_engine(600, Keeper(), throttling)
    holder = begun(engine)
    waiting = Link(engine).client(f.heartbeat(1))
    waiting.session.client.keep(kept(2)[:20])
    waiting.client(kept(2)[20:])
    assert waiting.waits
    waiting.broker(f.heartbeat_reply(1))
    finish(holder)
    waiting.give_turns()
    assert waiting.session.client.muted == Mute.THROTTLED
    assert waiting.to_broker == f.heartbeat(1)
    waiting.advance(500)
    assert waiting.to_broker == f.heartbeat(1) + kept(2)


def test_the_number_of_kept_requests_is_bounded():
    """Requests that are gathered, parked or unsent count as one each; by default there is no bound."""
    engine = small_engine(1 << 20, requests=2)
    first, second, third = begun(engine), Link(engine), Link(engine)
    second.stuck = True
    second.client(f.heartbeat(1))
    assert engine.reservations.requests == 2
    third.client(kept(3)[:20])
    assert third.waits
    second.unstick()
    assert not third.waits
    finish(first)
    assert begun(small_engine(1 << 20)).session.shared.reservations.max_requests == -1


def test_the_queue_for_the_number_of_requests_is_served_after_a_lack_of_memory():
    """A release serves every waiting client, independently of its reason to wait."""
    engine = small_engine(1000, requests=1)
    first, second = begun(engine), begun(engine)
    engine.request_pool.force_allocate(2000)
    finish(first)
    assert second.waits
    engine.request_pool.release(2000)
    assert not second.waits


def test_one_user_at_one_address_has_a_share_of_the_pool():
    """Over the share its clients wait in a queue of their own; other clients are served meanwhile."""
    engine = small_engine(2000, max_share=0.25)
    greedy = [begun(engine, size=400, host="10.0.0.1") for _ in range(3)]
    assert [link.waits for link in greedy] == [False, False, True]
    other = begun(engine, size=200, host="10.0.0.2")
    same_host = Link(engine, "10.0.0.1", "alice").client(kept(1, 60))
    assert not other.waits
    assert same_host.to_broker == kept(1, 60)
    assert not engine.request_pool.is_depleted  # there is memory, and these clients may not have it
    finish(greedy[0], size=400)
    assert not greedy[2].waits
    for link in greedy[1:]:
        finish(link, size=400)
    finish(other, size=200)
    assert engine.reservations.reserved_bytes == 0


def test_the_ordinary_requests_of_a_pair_have_a_share_of_their_own():
    """Its larger ones do not use it up."""
    engine = small_engine(16_000, max_share=0.25)
    large = [begun(engine, size=3000, host="10.0.0.1") for _ in range(3)]
    assert [link.waits for link in large] == [False, False, True]
    ordinary = begun(engine, size=1500, host="10.0.0.1")
    assert not ordinary.waits
    finish(ordinary, size=1500)
    assert ordinary.to_broker == kept(1, 1500)


def test_one_request_that_has_begun_may_exceed_its_share():
    """Several have begun and need more than the share: they end, one after the other."""
    engine = small_engine(1 << 20, max_share=0.25)
    size = 200_000
    links = [Link(engine, "10.0.0.1").client(kept(1, size)[:2000]) for _ in range(4)]
    assert not any(link.waits for link in links)
    for link in links:
        link.client(kept(1, size)[2000:150_000])
    assert [link.waits for link in links] == [False, False, True, True]
    for _ in links:
        for link in links:
            if not link.unread and link.session.request_left:
                link.client(kept(1, size)[-link.session.request_left :])
    assert [link.to_broker for link in links] == [kept(1, size)] * 4
    assert engine.reservations.reserved_bytes == 0


def test_a_client_that_waited_for_its_share_queues_for_the_pool():
    """Its share is free, the pool is not, and a client that waited for the pool is served first."""
    engine = small_engine(1000, max_share=0.5)
    greedy = [begun(engine, size=500, host="10.0.0.1") for _ in range(2)]
    rest = [begun(engine, size=500, host=f"10.0.0.{n}") for n in (2, 3)]
    assert [link.waits for link in (*greedy, *rest)] == [False, True, False, True]
    engine.request_pool.force_allocate(600)
    finish(greedy[0], size=500)
    assert (rest[1].waits, greedy[1].waits) == (True, True)
    assert greedy[1].session.claim.line is rest[1].session.claim.line
    engine.request_pool.release(600)
    finish(rest[0], size=500)
    finish(rest[1], size=500)
    assert not greedy[1].waits


def test_a_depletion_and_its_end_are_reported_once():
    """The end is reported when no client waits any more, with the depletion's duration."""
    engine = small_engine(600)
    first, second, third = (begun(engine) for _ in range(3))
    outages = first.watcher.outages
    assert outages == [("requests", None)]
    engine.advance(40)
    finish(first)
    finish(second)
    assert outages == [("requests", None)]
    engine.advance(70)
    finish(third)
    assert outages == [("requests", None), ("requests", 70)]
    assert engine.request_pool.depleted_ms(500) == 70


@pytest.mark.parametrize("verdict", ["throttle", "refuse"])
def test_a_request_that_waits_keeps_its_verdict(verdict):
    """The policies are not asked again; a throttle begins when the request is forwarded."""
    ends = {
        "throttle": Throttle(50, Forward((Patch(0, b"\x00\x05"),))),
        "refuse": Reject(ErrorCode.POLICY_VIOLATION),
    }[verdict]
    judge = Recorder(lambda _: ends, apis={f.HEARTBEAT})
    engine = small_engine(200, Keeper(), judge)
    holder = begun(engine, size=200)
    link = Link(engine)
    link.session.client.keep(f.beat(7)[:6])
    link.client(f.beat(7)[6:])
    assert link.waits
    assert judge.asked == [1]
    finish(holder, size=200)
    link.give_turns()
    assert judge.asked == [1]
    if verdict == "throttle":
        assert link.to_broker == f.beat(7)
        assert link.session.client.muted == Mute.THROTTLED
    else:
        assert len(link.to_client) == len(f.beat_reply(7))
    assert request_bytes_of([link]) == 0


def test_memory_is_released_when_no_policy_wants_the_frame_whole_any_more():
    """The policies' needs changed while the request waited: it is streamed."""
    keeper = Keeper()
    engine = small_engine(600, keeper)
    holder, link = begun(engine), Link(engine)
    link.session.client.keep(kept(2)[:6])
    link.client(kept(2)[6:])
    assert link.waits
    keeper.apis = frozenset()
    engine.reconsider()
    finish(holder)
    link.give_turns()
    assert link.to_broker == kept(2)
    assert engine.request_pool.used_bytes == 0
