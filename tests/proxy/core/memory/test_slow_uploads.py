"""A simulation of clients of all rates: none starves, none blocks the others for good, and the bounds hold.

Requests of random sizes come at random rates, with pauses and disconnects, to be kept whole or to stream, into pools of
random sizes. Time is virtual; the seed is the only input.
"""

from collections import Counter
from random import Random

from policies.api import Need
from proxy.core.errors import CloseReason
from proxy.core.memory.announced import MAX_GATHERED_BYTES
from proxy.core.memory.pool_part import ORDINARY_BYTES
from proxy.core.memory.reservations import MIN_STEP_BYTES
from proxy.core.memory.slow_clients import START_MS, ReadLimits
from tests.support.core.memory import Keeper, kept, request_bytes_of, small_engine, unread_bytes
from tests.support.core.uploads import Crowd, Upload
from tests.support.messages import frames as f
from tests.support.processes.measured import scaled

KIB, MIB = 1 << 10, 1 << 20
UPLOADS = 60
STEP_MS = 100
LONGEST_MS = 30 * 60_000
FAST = 1000
"""Bytes per millisecond: such a request is never closed in favour of others, and ends soon."""
LATE_MS = 15_000
"""It ends so much later at most than it would by itself, with its pauses."""


class Run:
    """One simulation: a pool and a bound per node, and uploads that come and go."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.pool_bytes = chance.choice([256 * KIB, MIB, 3 * MIB, 8 * MIB])
        self.max_announced_bytes = chance.choice([200 * KIB, MIB, 4 * MIB])
        self.largest = min(self.pool_bytes - 100, 3 * MIB)
        self.engine = small_engine(
            self.pool_bytes,
            Keeper(needs={f.LIST_OFFSETS: Need.BODY}),
            limits=ReadLimits(),
            max_share=chance.choice([0.25, 1.0]),
            announced_bytes=self.max_announced_bytes,
            request_max_bytes=self.largest + 100,
        )
        self.engine.reservations.unread_bytes = unread_bytes
        self.crowd = Crowd(self.engine, STEP_MS)
        self.left: set[Upload] = set()

    def come(self) -> None:
        """Let a client come with a request of some size and rate."""
        chance = self.chance
        size = int(2 ** chance.uniform(7, self.largest.bit_length() - 1))
        size = min(size, self.largest)
        rate = 2 ** chance.uniform(1.5, 12)
        number = len(self.crowd.uploads)
        whole = chance.random() < 0.6
        request = kept(number, size) if whole else f.produce(number, acks=1, size_bytes=size)
        self.crowd.add(request, rate, f"10.0.0.{chance.randrange(6)}", chance.randrange(2))

    def step(self) -> None:
        """Let time pass; some clients pause, and some go away."""
        chance, crowd = self.chance, self.crowd
        for upload in crowd.uploads:
            if not upload.is_done and chance.random() < 0.0005:
                upload.leave()
                self.left.add(upload)
            elif chance.random() < 0.01:
                upload.credit -= upload.rate * chance.uniform(0, 2000)
        crowd.step()
        self.check()

    def check(self) -> None:
        """Check that the memory is that of the sessions, and within its bounds."""
        engine, links = self.engine, [each.link for each in self.crowd.uploads]
        pool = engine.request_pool
        open_links = [link for link in links if link.session.handle is not None]
        assert pool.used_bytes == request_bytes_of(open_links)
        held_bytes = pool.used_bytes - pool.carried_bytes
        assert held_bytes <= self.pool_bytes + pool.max_single_bytes + MIN_STEP_BYTES
        for node in range(2):
            assert engine.announced.bytes_of(node) <= self.max_announced_bytes + self.largest + 100

    @property
    def is_over(self) -> bool:
        return all(each.is_done or each.is_cut or each in self.left for each in self.crowd.uploads)


def play(seed: int) -> Counter[str]:
    """Check one simulation; return how often requests waited, were gathered because they are slow, and ended."""
    run, reached = Run(seed), Counter[str]()
    engine, uploads = run.engine, run.crowd.uploads
    while engine.now_ms < LONGEST_MS and not (len(uploads) == UPLOADS and run.is_over):
        if len(uploads) < UPLOADS and run.chance.random() < 0.1:
            run.come()
        run.step()
        reached["waited"] += len(engine.reservations)
        reached["gathered"] += any(
            each.link.session.is_gathering and each.request[4:6] == b"\0\0" for each in uploads
        )
    for upload in uploads:
        assert upload.is_done or upload.is_cut or upload in run.left
        if upload.is_cut and upload not in run.left:
            assert upload.link.session.reason is CloseReason.REQUEST_READ_TIMEOUT
            assert upload.rate < FAST
            assert len(upload.request) / upload.rate > START_MS
        if upload.is_done and upload.rate >= FAST:
            assert upload.took_ms < len(upload.request) / upload.rate + LATE_MS
        assert upload.link.watcher.internal == []
        reached["cut"] += upload.is_cut
        reached["done"] += upload.is_done
        upload.leave()
    engine.advance(engine.now_ms + 60_000)
    assert engine.request_pool.used_bytes == engine.reservations.requests == 0
    assert len(engine.reservations) == engine.reservations.reserved_bytes == 0
    assert [engine.announced.bytes_of(node) for node in range(2)] == [0, 0]
    assert not engine.request_pool.is_depleted
    assert engine.timers.next_ms() is None
    return reached


def test_all_requests_end_and_no_fast_one_is_closed() -> None:
    """Only slow requests that were in the way of others are closed; all memory is given back."""
    assert MAX_GATHERED_BYTES > 3 * MIB
    assert ORDINARY_BYTES == MIB
    reached: Counter[str] = Counter()
    for seed in range(scaled(12, 100)):
        try:
            reached.update(play(seed))
        except AssertionError as failure:
            failure.add_note(f"seed {seed}")
            raise
    assert min(reached.values()) > 0
