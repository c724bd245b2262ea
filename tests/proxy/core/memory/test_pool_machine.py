"""Random walks over the pool and real sessions: arrive in parts, wait, be held, throttled, cut, resized.

After each step: used + free bytes are the size, and the used bytes are those that the sessions hold. Used bytes exceed
the pool by the largest request at most (and by the short reads of clients inside a frame). The clients that wait are
those in line. At the end every open session has sent all its requests in order, and no memory is in use.

`SLUICE_MACHINE_STEPS=10000` sets the length of the long runs.
"""

import os
from collections import Counter
from random import Random

import pytest

from policies.api import FORWARD, Forward, Hold, Need, Patch, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.memory import read_sizes
from proxy.core.memory.slow_clients import SHARE_CHECK_MS
from tests.support.core.memory import Keeper, Link, kept, request_bytes_of, small_engine
from tests.support.messages import frames as f

POOL = 40_000
LARGEST = 20_000
CRUMB = 200
MOST_SESSIONS = 8
PASSES, ANSWERED = b"\x00" * 6, b"\x00" * 8
SIZES = (60, 500, 3_000, 9_000, LARGEST)
PARTS = (3, 11, 40, 1_000, 8_000, 1 << 20)
HOSTS = ("10.0.0.1", "10.0.0.1", "10.0.0.2")
NO_ID = b"\xff\xff"
MOODS = ("pass", "pass", "stream", "patch", "hold", "throttle", "respond", "silent")
STEPS = int(os.environ.get("SLUICE_MACHINE_STEPS", "5000"))


class Walk:
    """Model: the requests of each session, the part that must reach the broker, and the part not sent yet."""

    def __init__(self, seed: int, max_share: float, requests: int) -> None:
        self.dice = Random(seed)
        self.moods: dict[int, list[object]] = {}
        keeper = Keeper(
            self.decide, needs={f.LIST_OFFSETS: Need.BODY}, apis={f.LIST_OFFSETS, f.PRODUCE}
        )
        self.engine = small_engine(POOL, keeper, max_share=max_share, requests=requests)
        self.pool = self.engine.request_pool
        self.allowed = POOL
        self.links: list[Link] = []
        self.expected: dict[Link, bytes] = {}
        self.unsent: dict[Link, bytes] = {}
        self.replied: Counter[Link] = Counter()
        self.number = 0
        self.seen: Counter[str] = Counter()

    def decide(self, request):
        moods = self.moods.get(request.correlation_id)
        return moods.pop(0) if moods else FORWARD

    def step(self) -> None:
        """Do one thing at random, and check what must hold after it."""
        roll, dice = self.dice.random(), self.dice
        if roll < 0.04 or not self.links:
            self.a_client_connects()
        elif roll < 0.88:
            link = dice.choice(self.links)
            if roll < 0.30:
                self.a_client_asks(link, dice.choice(SIZES), dice.choice(MOODS))
            elif roll < 0.66:
                self.bytes_arrive(link, dice.choice(PARTS))
            elif roll < 0.76:
                self.a_broker_replies(link)
            elif roll < 0.79:
                link.stuck = True
            elif roll < 0.85:
                link.unstick()
            else:
                self.a_connection_goes(link, dice.choice(["lost", "broker", "end", "fin"]))
        elif roll < 0.95:
            self.engine.advance(self.engine.now_ms + dice.choice([1, 20, 60, 120]))
        elif roll < 0.99:
            self.engine.wake(dice.randrange(3))
        else:
            self.engine.resize(dice.choice([LARGEST + 4, POOL // 2 + 4, POOL, POOL, 3 * POOL]), -1)
        self.give_turns()
        self.check()
        self.look()

    def a_client_connects(self) -> None:
        if len(self.links) < MOST_SESSIONS:
            link = Link(self.engine, self.dice.choice(HOSTS))
            self.links.append(link)
            self.expected[link] = self.unsent[link] = b""

    def a_client_asks(self, link: Link, size: int, mood: str) -> None:
        self.number += 1
        number = self.number
        if mood in {"stream", "patch", "silent"}:
            asked = f.produce(number, acks=0 if mood == "silent" else 1, size_bytes=size - 60)
        else:
            asked = kept(number, size)
        self.moods[number] = {
            "hold": [Hold(100, number % 3), Hold(50, number % 3)][: 1 + number % 2],
            "throttle": [Throttle(30)],
            # its first bytes are as they were, but it has to be kept whole
            "patch": [Throttle(30, Forward((Patch(0, NO_ID),)))],
            "respond": [Respond(ANSWERED)],
        }.get(mood, [])
        if mood != "respond":
            self.expected[link] += asked
        self.unsent[link] += asked

    def bytes_arrive(self, link: Link, part: int) -> None:
        data, self.unsent[link] = self.unsent[link][:part], self.unsent[link][part:]
        link.client(data)

    def a_broker_replies(self, link: Link) -> None:
        for frame in f.whole_frames(link.to_broker)[self.replied[link] :]:
            self.replied[link] += 1
            if frame[4:6] == b"\x00\x01" or not f.is_silent(frame):
                link.broker(f.reply(int.from_bytes(frame[8:12], "big"), PASSES))

    def a_connection_goes(self, link: Link, how: str) -> None:
        session, now_ms = link.session, self.engine.now_ms
        if how == "lost":
            session.client_lost(now_ms)
        elif how == "broker":
            session.broker_gone(CloseReason.BROKER_RESET, now_ms)
        elif how == "fin":
            session.client_gone(now_ms)
        else:
            session.end(CloseReason.CLIENT_PROTOCOL, "", now_ms)
        self.bury(link)

    def bury(self, link: Link) -> None:
        link.settle()
        link.give_turns()
        link.session.client.clear()
        link.session.broker.clear()
        link.release()
        link.give_turns()
        self.links.remove(link)
        assert link.session.claim.reserved_bytes == 0
        assert link.session.claim.line is None

    def give_turns(self) -> None:
        """Do as the event loop, also for memory that is freed and requests that are woken meanwhile."""
        for _ in range(3 * MOST_SESSIONS):
            if not self.engine.turns.queue or not self.links:
                return
            self.links[0].give_turns()

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        pool, room, links = self.pool, self.engine.reservations, self.links
        claims = [link.session.claim for link in links]
        assert pool.used_bytes == request_bytes_of(links)
        assert pool.used_bytes + pool.available_memory() == pool.size_bytes
        assert pool.carried_bytes == sum(len(link.session.client.carry) for link in links)
        size = pool.size_bytes
        self.allowed = size if pool.used_bytes < size else max(self.allowed, size)
        assert pool.used_bytes <= self.allowed + LARGEST + 4 - 1 + CRUMB * (len(links) + 1)
        unsent = sum(bool(link.session.broker.outbox) for link in links)
        assert room.requests == sum(claim.is_counted for claim in claims) + unsent
        assert room.reserved_bytes == sum(claim.reserved_bytes for claim in claims)
        waiting = [link for link in links if link.waits]
        assert len(room) == len(waiting)
        for link in waiting:
            session = link.session
            assert session.claim.line is not None
            assert bool(session.claim.reserved_bytes) == bool(session.request_left)
        for share in {claim.share for claim in claims if claim.share is not None}:
            assert share.used_bytes == sum(claim.reserved_bytes for claim in share.holders)
            assert share.used_bytes or share.line
        if pool.is_depleted:
            assert waiting or pool.is_out_of_memory()
        for link in links:
            assert link.watcher.internal == []
            assert self.expected[link].startswith(link.to_broker)

    def look(self) -> None:
        """Count the states that a walk is to reach."""
        seen, room = self.seen, self.engine.reservations
        waiting = [link.session for link in self.links if link.waits]
        shares = [link.session.claim.share for link in self.links if link.session.claim.share]
        seen["out of memory"] += self.pool.is_out_of_memory()
        seen["waiting for memory"] += self.pool.is_waited_for
        seen["waiting inside a request"] += any(each.request_left for each in waiting)
        seen["judged and waiting"] += any(each.pending is not None for each in waiting)
        seen["beyond its share"] += any(share.first for share in shares)
        seen["waiting for their share"] += any(share.line for share in shares)
        seen["too many"] += room.is_closed()
        seen["held"] += any(link.session.held is not None for link in self.links)
        seen["broker stuck"] += any(link.session.broker.outbox for link in self.links)

    def deliver_everything(self) -> None:
        """Let brokers read and clients send: every request arrives."""
        for link in self.links:
            link.unstick()
        for _ in range(200):
            for link in self.links:
                data, self.unsent[link] = self.unsent[link], b""
                link.client(data)
                self.give_turns()
            self.engine.advance(self.engine.now_ms + 200)
            self.give_turns()
            if all(link.to_broker == self.expected[link] for link in self.links):
                break
        for link in self.links:
            assert link.to_broker == self.expected[link]
            assert not link.waits
        assert self.engine.reservations.requests == len(self.engine.reservations) == 0
        self.check()  # many requests in flight are counted
        for link in list(self.links):
            self.bury(link)
        assert self.pool.used_bytes == self.engine.reply_pool.used_bytes == 0
        assert not self.pool.is_depleted
        self.engine.advance(
            self.engine.now_ms + SHARE_CHECK_MS
        )  # the look at slow clients, not repeated
        assert self.engine.timers.next_ms() is None


def test_the_pool_keeps_its_laws_on_long_walks_that_reach_every_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With shares and a limit of requests, with neither, and with few requests; short walks end everywhere."""
    monkeypatch.setattr(read_sizes, "MIN_READ_BYTES", CRUMB)
    monkeypatch.setattr(read_sizes, "START_BYTES", CRUMB)
    reached: Counter[str] = Counter()
    kinds = ((0.5, 6), (1.0, -1), (1.0, 3))
    walks = [(STEPS, each) for each in kinds] + [(30, each) for each in kinds * 30]
    for seed, (steps, (max_share, requests)) in enumerate(walks):
        walk = Walk(seed, max_share, requests)
        for _ in range(steps):
            walk.step()
        walk.deliver_everything()
        reached.update(walk.seen)
    assert all(reached.values()), reached
