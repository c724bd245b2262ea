"""A stateful machine over the pool and real sessions: arrive in parts, wait, be held, throttled, cut, resized.

Invariants: used + free bytes are the size, and the used bytes are those that the sessions hold. Used bytes exceed
the pool by the largest request at most (and by the short reads of clients inside a frame). A waiting client has a
reason to wait. At the end every open session has sent all its requests in order, and no memory is in use.

`SLUICE_MACHINE_STEPS=10000` sets the length of the long runs.
"""

import os
from collections import Counter
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.api import FORWARD, Forward, Hold, Need, Patch, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.memory import read_limits
from proxy.core.memory.slow_clients import HASTY_MS
from tests.support.core.memory import Keeper, Link, kept, request_bytes_of, small_engine
from tests.support.messages import frames as f

POOL = 40_000
LARGEST = 20_000
CRUMB = 200
MOST_SESSIONS = 8
PASSES, ANSWERED = b"\x00" * 6, b"\x00" * 8
SIZES = st.sampled_from([60, 500, 3_000, 9_000, LARGEST])
KEPT = {f.LIST_OFFSETS, f.PRODUCE}
NO_ID = b"\xff\xff"
MOODS = ["pass", "pass", "stream", "patch", "hold", "throttle", "respond", "silent"]
WHICH = st.integers(0, MOST_SESSIONS - 1)
STEPS = int(os.environ.get("SLUICE_MACHINE_STEPS", "5000"))


class MemoryMachine(RuleBasedStateMachine):
    """Model: the requests of each session, the part that must reach the broker, and the part not sent yet."""

    max_share = 0.5
    requests = 6

    def __init__(self) -> None:
        super().__init__()
        self.crumbs = read_limits.CRUMB_BYTES, read_limits.START_BYTES
        read_limits.CRUMB_BYTES = read_limits.START_BYTES = CRUMB
        self.moods: dict[int, list[object]] = {}
        self.keeper = Keeper(self.decide, needs={f.LIST_OFFSETS: Need.BODY}, apis=KEPT)
        self.engine = small_engine(
            POOL, self.keeper, max_share=self.max_share, requests=self.requests
        )
        self.pool = self.engine.request_pool
        self.allowed = POOL
        self.links: list[Link] = []
        self.expected: dict[Link, bytes] = {}
        self.unsent: dict[Link, bytes] = {}
        self.replied: dict[Link, int] = {}
        self.number = 0
        for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
            self.a_client_connects(host)

    def decide(self, request):
        moods = self.moods.get(request.correlation_id)
        return moods.pop(0) if moods else FORWARD

    def pick(self, which: int) -> Link | None:
        return self.links[which % len(self.links)] if self.links else None

    @rule(host=st.sampled_from(["10.0.0.1", "10.0.0.1", "10.0.0.2"]))
    def a_client_connects(self, host):
        if len(self.links) < MOST_SESSIONS:
            link = Link(self.engine, host)
            self.links.append(link)
            self.expected[link] = self.unsent[link] = b""
            self.replied[link] = 0

    @precondition(lambda self: self.links)
    @rule(
        which=WHICH,
        size=SIZES,
        mood=st.sampled_from(MOODS),
    )
    def a_client_asks(self, which, size, mood):
        link = self.pick(which)
        self.number += 1
        number = self.number
        if mood in {"stream", "patch"}:
            asked = f.produce(number, acks=1, size_bytes=size - 60)
        elif mood == "silent":
            asked = f.produce(number, acks=0, size_bytes=size - 60)
        else:
            asked = kept(number, size)
        if mood == "hold":
            self.moods[number] = [Hold(100, number % 3), Hold(50, number % 3)][: 1 + number % 2]
        elif mood == "throttle":
            self.moods[number] = [Throttle(30)]
        elif mood == "patch":  # its first bytes are as they were, but it has to be kept whole
            self.moods[number] = [Throttle(30, Forward((Patch(0, NO_ID),)))]
        elif mood == "respond":
            self.moods[number] = [Respond(ANSWERED)]
        if mood != "respond":
            self.expected[link] += asked
        self.unsent[link] += asked

    @precondition(lambda self: self.links)
    @rule(which=WHICH, part=st.sampled_from([3, 11, 40, 1_000, 8_000, 1 << 20]))
    def bytes_arrive(self, which, part):
        link = self.pick(which)
        data, self.unsent[link] = self.unsent[link][:part], self.unsent[link][part:]
        link.client(data)

    @precondition(lambda self: self.links)
    @rule(which=WHICH)
    def a_broker_replies(self, which):
        link = self.pick(which)
        for frame in f.whole_frames(link.to_broker)[self.replied[link] :]:
            self.replied[link] += 1
            number = int.from_bytes(frame[8:12], "big")
            if frame[4:6] == b"\x00\x01" or not f.is_silent(frame):
                link.broker(f.reply(number, PASSES))

    @precondition(lambda self: self.links)
    @rule(which=WHICH)
    def a_broker_stops_reading(self, which):
        self.pick(which).stuck = True

    @precondition(lambda self: self.links)
    @rule(which=WHICH)
    def a_broker_reads_again(self, which):
        self.pick(which).unstick()

    @precondition(lambda self: self.links)
    @rule(which=WHICH, how=st.sampled_from(["lost", "broker", "end", "fin"]))
    def a_connection_goes(self, which, how):
        link = self.pick(which)
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
        link._attend()
        link.session.client.clear()
        link.session.broker.clear()
        link.release()
        link._attend()
        self.links.remove(link)
        assert link.session.claim.reserved_bytes == 0
        assert link.session.claim.line is None

    @rule(elapsed_ms=st.sampled_from([1, 20, 60, 120]))
    def time_passes(self, elapsed_ms):
        self.engine.advance(self.engine.now_ms + elapsed_ms)
        self.attend()

    @rule(key=st.integers(0, 2))
    def a_policy_wakes(self, key):
        self.engine.wake(key)
        self.attend()

    @rule(size=st.sampled_from([LARGEST + 4, POOL // 2 + 4, POOL, 3 * POOL]))
    def the_pool_is_resized(self, size):
        self.engine.resize(size, -1)
        self.attend()

    def attend(self) -> None:
        """Do as the event loop, also for memory that is freed and requests that are woken meanwhile."""
        for _ in range(3 * MOST_SESSIONS):
            if not self.engine.turns.queue:
                return
            for link in self.links[:1]:
                link._attend()

    # -- invariants ------------------------------------------------------------------------------

    @invariant()
    def what_is_used_is_what_is_held(self):
        self.attend()
        assert self.pool.used_bytes == request_bytes_of(self.links)
        assert self.pool.used_bytes + self.pool.available_memory() == self.pool.size_bytes
        assert self.pool.carried_bytes == sum(len(link.session.client.carry) for link in self.links)

    @invariant()
    def the_bound_holds(self):
        size = self.pool.size_bytes
        self.allowed = size if self.pool.used_bytes < size else max(self.allowed, size)
        crumbs = CRUMB * (len(self.links) + 1)
        assert self.pool.used_bytes <= self.allowed + LARGEST + 4 - 1 + crumbs

    @invariant()
    def the_requests_held_are_counted(self):
        room = self.engine.reservations
        held = sum(
            link.session.claim.holds + bool(link.session.broker.outbox) for link in self.links
        )
        assert room.requests == held

    @invariant()
    def waiting_clients_have_a_reason(self):
        room, pool = self.engine.reservations, self.pool
        waiting = [link for link in self.links if link.waits]
        assert len(room) == len(waiting)
        for part in (room._ordinary, room._large):
            assert part.first is None or (part.first.reserved_bytes and part.first.line is None)
            place, first = part.line.first(), part.first
            if place is not None:
                assert not room._parts.may_take(
                    part, place.claim, place.size_bytes, room.reserved_bytes
                )
                assert part.first is first is not place.claim
        assert not room._door or room._called or room._has_too_many()
        for share in room._shares.by_pair.values():
            for claim in share.line or ():
                assert share.first is not claim
                assert room._shares.is_over(share, claim)
            assert share.used_bytes == sum(claim.reserved_bytes for claim in share.holders)
            assert share.used_bytes or share.line
        for link in waiting:
            session = link.session
            assert bool(session.claim.reserved_bytes) == bool(session.request_left)
        assert room.reserved_bytes == sum(link.session.claim.reserved_bytes for link in self.links)
        if pool.is_depleted:
            assert room._ordinary.line or room._large.line or pool.is_out_of_memory()

    @invariant()
    def nothing_was_our_own_fault(self):
        for link in self.links:
            assert link.watcher.internal == []
            assert self.expected[link].startswith(link.to_broker)

    def teardown(self) -> None:
        try:
            self.deliver_everything()
        finally:
            read_limits.CRUMB_BYTES, read_limits.START_BYTES = self.crumbs

    def deliver_everything(self) -> None:
        """Let brokers read and clients send: every request arrives."""
        for link in self.links:
            link.unstick()
        for _ in range(200):
            for link in self.links:
                data, self.unsent[link] = self.unsent[link], b""
                link.client(data)
                self.attend()
            self.engine.advance(self.engine.now_ms + 200)
            self.attend()
            if all(link.to_broker == self.expected[link] for link in self.links):
                break
        for link in self.links:
            assert link.to_broker == self.expected[link]
            assert not link.waits
        assert self.engine.reservations.requests == len(self.engine.reservations) == 0
        assert self.pool.used_bytes == request_bytes_of(
            self.links
        )  # many requests in flight are counted
        for link in list(self.links):
            self.bury(link)
        assert self.pool.used_bytes == self.engine.reply_pool.used_bytes == 0
        assert self.engine.reservations._shares.by_pair == {}
        assert not self.pool.is_depleted
        self.engine.advance(self.engine.now_ms + HASTY_MS)  # the look at slow clients, not repeated
        assert self.engine.timers.next_ms() is None


STATES = (
    "out of memory",
    "waiting for memory",
    "waiting inside a request",
    "beyond its part",
    "beyond its share",
    "waiting to be read",
    "waiting for their share",
    "held",
    "broker stuck",
    "too many",
    "judged and waiting",
)


def walk(machine: MemoryMachine, steps: int, seed: int) -> Counter[str]:
    """Take so many random steps; return how often each interesting state was seen."""
    dice = Random(seed)
    seen: Counter[str] = Counter()
    sizes = [60, 500, 3_000, 9_000, LARGEST]
    invariants = [
        machine.what_is_used_is_what_is_held,
        machine.the_bound_holds,
        machine.the_requests_held_are_counted,
        machine.waiting_clients_have_a_reason,
        machine.nothing_was_our_own_fault,
    ]
    for _ in range(steps):
        which = dice.randrange(MOST_SESSIONS)
        roll = dice.random()
        if not machine.links or roll < 0.04:
            machine.a_client_connects(dice.choice(["10.0.0.1", "10.0.0.1", "10.0.0.2"]))
        elif roll < 0.30:
            machine.a_client_asks(which, dice.choice(sizes), dice.choice(MOODS))
        elif roll < 0.66:
            machine.bytes_arrive(which, dice.choice([3, 11, 40, 1_000, 8_000, 1 << 20]))
        elif roll < 0.76:
            machine.a_broker_replies(which)
        elif roll < 0.79:
            machine.a_broker_stops_reading(which)
        elif roll < 0.85:
            machine.a_broker_reads_again(which)
        elif roll < 0.88:
            machine.a_connection_goes(which, dice.choice(["lost", "broker", "end", "fin"]))
        elif roll < 0.95:
            machine.time_passes(dice.choice([1, 20, 60, 120]))
        elif roll < 0.99:
            machine.a_policy_wakes(dice.randrange(3))
        else:
            machine.the_pool_is_resized(
                dice.choice([LARGEST + 4, POOL // 2 + 4, POOL, POOL, 3 * POOL])
            )
        for holds in invariants:
            holds()
        room = machine.engine.reservations
        seen["out of memory"] += machine.pool.is_out_of_memory()
        seen["waiting for memory"] += bool(room._ordinary.line or room._large.line)
        seen["waiting inside a request"] += any(
            link.waits and link.session.request_left for link in machine.links
        )
        seen["beyond its part"] += bool(room._ordinary.first or room._large.first)
        seen["beyond its share"] += any(share.first for share in room._shares.by_pair.values())
        seen["waiting to be read"] += bool(room._door)
        seen["waiting for their share"] += any(
            share.line for share in room._shares.by_pair.values()
        )
        seen["held"] += any(link.session.held is not None for link in machine.links)
        seen["broker stuck"] += any(link.session.broker.outbox for link in machine.links)
        seen["too many"] += room._has_too_many()
        seen["judged and waiting"] += any(
            link.waits and link.session.has_pending for link in machine.links
        )
    return seen


class Unshared(MemoryMachine):
    max_share = 1.0
    requests = -1


class Few(MemoryMachine):
    max_share = 1.0
    requests = 3


def test_a_long_random_run_reaches_every_state():
    """Its length is `SLUICE_MACHINE_STEPS`."""
    seen: Counter[str] = Counter()
    for seed, kind in enumerate((MemoryMachine, Unshared, Few)):
        seen += play(kind(), seed)
    print(3 * STEPS, "steps:", dict(seen))  # noqa: T201 - shown with -s, to see the states of a long run
    assert {state for state, times in seen.items() if times} == set(STATES)


def play(machine: MemoryMachine, seed: int) -> Counter[str]:
    try:
        return walk(machine, STEPS, seed)
    finally:
        machine.teardown()


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(stateful_step_count=30)
