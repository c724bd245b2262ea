"""`admission`: in any sequence of events the bound holds, and no request waits while there is room."""

from hypothesis import given
from hypothesis import strategies as st

from policies.admission import SHED
from policies.api import FORWARD, Hold, Outcome
from tests.support.core.admitting import Room

USERS = st.sampled_from(["ANONYMOUS", "vip", "low"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), USERS),
        st.tuples(st.just("reply"), st.integers(0, 20)),
        st.tuples(st.just("hang up"), st.integers(0, 20)),
        st.tuples(st.just("advance"), st.sampled_from([1, 300, 1000])),
        st.tuples(st.just("settle"), st.none()),
    ),
    max_size=60,
)
LEVELS = {"vip": 10, "ANONYMOUS": 0, "low": -1}


class Model:
    """The expected state, from the verdicts alone: requests in flight, and the queue in order."""

    def __init__(self, most, max_queued_requests):
        rules = [{"user": user, "level": level} for user, level in LEVELS.items()]
        self.room = Room(
            most, importance=rules, max_queued_requests=max_queued_requests, max_wait_ms=1000
        )
        self.most, self.max_queued_requests = most, max_queued_requests
        self.running, self.waiting, self.refused = [], [], []
        self.levels = {}

    def step(self, what, value):
        room = self.room
        if what == "ask":
            self.settle()
            self.ask(value)
        elif what == "advance":
            room.bench.advance(value)
        elif what == "settle":
            self.settle()
        elif what == "reply" and self.running:
            room.bench.reply(self.running.pop(value % len(self.running)))
        elif what == "hang up" and self.running + self.waiting:
            request = (self.running + self.waiting)[value % len(self.running + self.waiting)]
            if request in self.running:  # the core completes it, and then says goodbye
                self.running.remove(request)
                room.bench.complete(request, Outcome.DISCONNECTED)
            else:
                self.waiting.remove(request)
            room.leave(request)
        self.look()
        self.check()

    def ask(self, user):
        full = len(self.running) == self.most
        least = min((self.levels[id(each)] for each in self.waiting), default=0)
        crowded = len(self.waiting) >= self.max_queued_requests
        request, verdict = self.room.ask(user=user)
        self.levels[id(request)] = LEVELS[user]
        if not full:
            assert verdict is FORWARD
            self.running.append(request)
            return
        if crowded and (not self.waiting or least >= LEVELS[user]):
            assert verdict == SHED
            self.room.bench.complete(request, Outcome.ANSWERED)
            return
        assert isinstance(verdict, Hold)
        if crowded:
            last = [each for each in self.waiting if self.levels[id(each)] == least][-1]
            assert [(each.request, each.verdict) for each in self.room.bench.released] == [
                (last, SHED)
            ]
        self.waiting.append(request)

    def look(self):
        for _, request, verdict in self.room.bench.released:
            if verdict is FORWARD:
                assert request is max(self.waiting, key=lambda each: self.levels[id(each)])
                self.running.append(request)
            else:
                assert verdict == SHED
                self.refused.append(request)
            self.waiting.remove(request)
        self.room.bench.released.clear()

    def settle(self):
        """Complete the refused requests in a later step."""
        for request in self.refused:
            self.room.bench.complete(request, Outcome.ANSWERED)
        self.refused.clear()

    def check(self):
        assert len(self.running) <= self.most
        assert len(self.waiting) <= self.max_queued_requests
        assert not self.waiting or len(self.running) == self.most
        assert self.room.policy.in_flight(1) == len(self.running)


@given(most=st.integers(1, 3), max_queued_requests=st.integers(0, 4), steps=STEPS)
def test_in_any_play_the_bound_holds_and_no_request_waits_while_there_is_room(
    most, max_queued_requests, steps
):
    """The admitted request has the highest priority, then came first; each place is freed exactly once."""
    model = Model(most, max_queued_requests)
    for what, value in steps:
        model.step(what, value)
    while model.running or model.waiting or model.refused:
        model.step("settle", None)
        model.step("reply", 0)
    policy = model.room.policy
    assert (policy.in_flight(1), policy.waiting(1)) == (0, 0)
    assert not policy._places
    assert not policy._tickets
