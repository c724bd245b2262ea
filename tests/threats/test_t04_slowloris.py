"""T4: clients that announce large requests and send almost nothing, or send slowly, to use up the memory for requests.

A request that is kept whole holds no more than twice what has arrived, and must arrive at 1 KiB per second. Slow
requests leave a quarter of the pool to ordinary ones and another to larger ones, and are served one after the other;
one is closed if a faster one needs its memory. A request that streams through reserves no more than has arrived. Time
is virtual.
"""

import pytest

from proxy.core.errors import CloseReason
from proxy.core.memory.slow_clients import START_MS, ReadLimits
from tests.support.core.memory import Link, kept, small_engine, unread_bytes
from tests.support.core.uploads import QUICK_BYTES_PER_MS, Crowd, Upload
from tests.support.messages import frames as f
from tests.support.processes.measured import scaled, tell

ATTACKERS = 500
POOL_BYTES = 64 << 20
ANNOUNCED_BYTES = 16 << 20
STEP_MS = 500
BYTE_EVERY_MS = 10_000
LONGEST_MS = 35_000
HEAD = kept(1, ANNOUNCED_BYTES)[:100]


class Siege:
    """The attackers, from so many addresses, and an honest client; each step is half a second."""

    def __init__(self, addresses: int) -> None:
        self.engine = small_engine(POOL_BYTES, limits=ReadLimits(), max_share=0.25)
        self.engine.reservations.unread_bytes = unread_bytes
        self.attackers = [
            Link(self.engine, f"10.1.{n % addresses // 250}.{n % addresses % 250}").client(HEAD)
            for n in range(ATTACKERS)
        ]
        self.honest = Link(self.engine, "10.2.0.1")
        self.longest_hold_ms = 0
        self._held_since = dict.fromkeys(self.attackers, 0)

    @property
    def left(self) -> list[Link]:
        return [each for each in self.attackers if not each.session.ended]

    def step(self) -> None:
        """Half a second passes; the event loop closes the connections of ended sessions."""
        now_ms = self.engine.now_ms
        for each in self.left:
            if now_ms and now_ms % BYTE_EVERY_MS == 0:
                each.client(b"\0")
            if not each.session.claim.reserved_bytes:
                self._held_since[each] = now_ms
            self.longest_hold_ms = max(self.longest_hold_ms, now_ms - self._held_since[each])
        self.honest.advance(STEP_MS)
        for each in self.attackers:
            if each.session.ended and each.session.handle is not None:
                each.release()

    def ask(self, request: bytes) -> int:
        """Return after how many ms of virtual time the honest request has reached the broker."""
        began_ms, before = self.engine.now_ms, len(self.honest.to_broker)
        self.honest.client(request)
        while len(self.honest.to_broker) < before + len(request):
            self.step()
            assert self.engine.now_ms < began_ms + 10 * LONGEST_MS
        return self.engine.now_ms - began_ms


def test_attackers_at_one_address_delay_no_other_client() -> None:
    """A request that is kept whole, one each half second for 35 seconds, never waits, and the pool is never full."""
    siege = Siege(addresses=1)
    waits_ms = []
    for number in range(2, 72):
        waits_ms.append(siege.ask(kept(number, 600)))
        assert siege.engine.request_pool.used_bytes < POOL_BYTES // 2
        siege.step()
    ended = ATTACKERS - len(siege.left)
    tell("T4", f"{ATTACKERS} connections at one address: the longest wait {max(waits_ms)} ms; an attacker held memory "
         f"for {siege.longest_hold_ms} ms at most, {ended} were closed")  # fmt: skip
    assert max(waits_ms) == 0
    assert ended
    assert siege.longest_hold_ms <= START_MS + STEP_MS


def test_attackers_at_many_addresses_hold_almost_nothing() -> None:
    """They get memory for what they have sent and a step more, so no other client waits; all are closed."""
    siege = Siege(addresses=ATTACKERS)
    assert siege.engine.request_pool.used_bytes < POOL_BYTES // 20
    siege.honest.client(f.produce(1, acks=1)).broker(f.produce_reply(1))
    assert siege.honest.to_client == f.produce_reply(1)
    kept_ms = siege.ask(kept(2, 600))
    large_ms = siege.ask(kept(3, POOL_BYTES))
    while siege.left:
        siege.step()
    tell("T4", f"{ATTACKERS} addresses: a produce waited 0 ms, requests that are kept whole {kept_ms} and {large_ms} "
         f"ms, and all were closed within {siege.engine.now_ms} ms")  # fmt: skip
    assert kept_ms == large_ms == 0
    assert siege.engine.now_ms <= LONGEST_MS
    assert {each.session.reason for each in siege.attackers} == {CloseReason.REQUEST_READ_TIMEOUT}
    assert siege.engine.request_pool.used_bytes == 0


SLOW_BYTES_PER_MS = 100
"""A client on a slow link: 100 kB/s."""
SLOW_REQUEST = kept(1, 50_000_000)


def slow_crowd(clients: int, addresses: int, max_share: float) -> tuple[Crowd, list[Upload]]:
    """Return clients that have begun to send one slow request each, from so many addresses, and all uploads."""
    engine = small_engine(POOL_BYTES, limits=ReadLimits(), max_share=max_share)
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine)
    slow = [
        crowd.add(SLOW_REQUEST, SLOW_BYTES_PER_MS, f"10.1.0.{n % addresses}")
        for n in range(clients)
    ]
    return crowd, slow


@pytest.mark.parametrize(
    ("clients", "addresses", "max_share"), [(10, 1, 1.0), (10, 10, 0.25), (200, 200, 0.25)]
)
def test_clients_that_are_merely_slow_delay_no_other_client(
    clients: int, addresses: int, max_share: float
) -> None:
    """Their requests are legal and would take minutes. Others of up to a quarter of the pool pass at once, and the
    slow ones end one after the other, the first within its own time.
    """
    crowd, slow = slow_crowd(clients, addresses, max_share)
    waits_ms: dict[int, list[int]] = {2_000: [], 1_000_000: [], 10_000_000: []}
    for second in range(scaled(60, 600)):
        for _ in range(10):
            crowd.step()
        for size, waits in waits_ms.items():
            if size < 10_000_000 or second % 10 == 9:
                honest = crowd.add(kept(2, size), QUICK_BYTES_PER_MS, "10.2.0.1")
                waits.append(crowd.await_done(honest, LONGEST_MS))
    done = sum(each.is_done for each in slow)
    longest = {size: max(waits) for size, waits in waits_ms.items()}
    tell("T4", f"beside {clients} slow requests of 50 MB from {addresses} addresses the longest waits are {longest} ms "
         f"of virtual time; {done} slow ones have ended after {crowd.engine.now_ms // 1000} s")  # fmt: skip
    assert longest == dict.fromkeys(waits_ms, 0)
    assert not any(each.is_cut for each in slow)
    assert done == (crowd.engine.now_ms > len(SLOW_REQUEST) / SLOW_BYTES_PER_MS)
    assert crowd.engine.request_pool.peak_bytes <= 2 * POOL_BYTES


def test_larger_requests_wait_two_seconds_and_end_one_slow_request() -> None:
    """They need more than the quarter that slow requests leave to them: the one that may exceed the pool yields."""
    crowd, slow = slow_crowd(100, 100, 0.25)
    bursts, waits_ms = scaled(5, 20), []
    for _ in range(bursts):
        for _ in range(100):
            crowd.step()
        large = [
            crowd.add(kept(2, 30_000_000), QUICK_BYTES_PER_MS, f"10.2.0.{n}") for n in range(3)
        ]
        waits_ms += [crowd.await_done(each, LONGEST_MS) for each in large]
    cut = sum(each.is_cut for each in slow)
    tell("T4", f"{bursts} times three requests of 30 MB beside 100 slow ones: the longest wait is {max(waits_ms)} ms, "
         f"{cut} slow ones were closed")  # fmt: skip
    assert max(waits_ms) <= 2_000 + 3 * 300  # each of the three takes .3 s
    assert cut <= bursts


def test_slow_requests_that_no_other_needs_the_memory_of_are_all_served() -> None:
    """More than the pool has room for come at once: each ends, though it takes ten minutes."""
    engine = small_engine(POOL_BYTES, limits=ReadLimits(), max_share=0.25)
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine, step_ms=500)
    slow = [crowd.add(kept(1, 20_000_000), SLOW_BYTES_PER_MS, f"10.1.0.{n % 3}") for n in range(6)]
    while not all(each.is_done or each.is_cut for each in slow):
        crowd.step()
        assert engine.now_ms < 60 * 60_000
    tell(
        "T4",
        f"6 requests of 20 MB at 100 kB/s in 64 MiB: the last ends after {engine.now_ms // 1000} s",
    )
    assert not any(each.is_cut for each in slow)


@pytest.mark.parametrize("rate", [1025, 4096])
def test_a_slow_but_honest_client_is_not_closed(rate: int) -> None:
    """Its request arrives a little faster than the least rate."""
    link = Link(small_engine(POOL_BYTES, limits=ReadLimits()))
    request = kept(1, 25_000)
    for at in range(0, len(request), rate):
        link.client(request[at : at + rate])
        link.advance(1000)
    assert not link.session.ended
    assert link.to_broker == request
