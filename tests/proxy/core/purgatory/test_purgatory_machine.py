"""A stateful machine: an operation completes exactly once under any interleaving, and the counts are right."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from proxy.core.purgatory.purgatory import DelayedOperation, Purgatory
from proxy.core.purgatory.timers import Timers

KEYS = ("a", "b", "c", "d")


class Request(DelayedOperation):
    """Completes when its reply has arrived; its completion may act on other operations."""

    __slots__ = ("completions", "expirations", "keys", "meddle", "replied", "since_ms")

    def __init__(self, keys, meddle, replied, since_ms):
        super().__init__()
        self.keys = set(keys)
        self.meddle = meddle
        self.replied = replied
        self.since_ms = since_ms
        self.completions: list[int] = []
        self.expirations: list[int] = []

    def try_complete(self, now_ms):
        return self.replied and self.force_complete(now_ms)

    def on_complete(self, now_ms):
        self.completions.append(now_ms)
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()

    def on_expiration(self, now_ms):
        assert self.completions == [now_ms]
        self.expirations.append(now_ms)


class Broker(RuleBasedStateMachine):
    """Replies, deadlines, disconnects, a drain and checks, in any order and inside each other."""

    def __init__(self):
        super().__init__()
        self.timers = Timers()
        self.purgatory = Purgatory(self.timers)
        self.now_ms = 0
        self.requests: list[Request] = []

    keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
    delays = st.integers(-2, 50)
    deeds = st.none() | st.tuples(
        st.sampled_from(("check", "reply", "force", "watch", "close")),
        st.integers(0, 20),
        st.sampled_from(KEYS),
    )

    def watch(self, keys, delay_ms, *, deed=None, replied=False):
        meddle = None if deed is None else lambda: self.do(*deed)
        request = Request(keys, meddle, replied, self.now_ms)
        self.requests.append(request)
        at_ms = self.now_ms + delay_ms
        done = self.purgatory.try_complete_else_watch(request, keys, at_ms, self.now_ms)
        assert done is request.completed is replied
        return request

    def do(self, what, which, key):
        """Do one thing, perhaps from inside a completion."""
        request = self.requests[which % len(self.requests)]
        if what == "check":
            self.purgatory.check_and_complete(key, self.now_ms)
        elif what == "reply":
            request.replied = True
            self.purgatory.check_and_complete(key, self.now_ms)
            assert request.completed or key not in request.keys, "an event was missed"
        elif what == "force":
            before = request.completed
            assert request.force_complete(self.now_ms) is not before
            assert not request.force_complete(self.now_ms)
        elif what == "watch":
            self.watch([key], which)
        else:
            request.cancel()
            assert request.cancelled
            request.force_complete(self.now_ms)

    @rule(keys=keys, delay_ms=delays, deed=deeds)
    def request(self, keys, delay_ms, deed):
        self.watch(keys, delay_ms, deed=deed)

    @rule(keys=keys, deed=deeds)
    def request_that_need_not_wait(self, keys, deed):
        before = self.purgatory.watched
        request = self.watch(keys, 10, deed=deed, replied=True)
        assert deed is not None or self.purgatory.watched == before
        assert request.cancelled

    @rule(deed=deeds)
    def something_happens(self, deed):
        if deed is not None and self.requests:
            self.do(*deed)

    @rule(by_ms=st.integers(0, 60))
    def time_passes(self, by_ms):
        self.now_ms += by_ms
        self.timers.advance(self.now_ms)
        for request in self.requests:
            assert request.completed or request.at_ms > self.now_ms
            assert len(request.expirations) <= 1

    @rule()
    def drain(self):
        for request in tuple(self.requests):
            request.force_complete(self.now_ms)

    @invariant()
    def each_operation_completed_once_or_waits(self):
        for request in self.requests:
            assert len(request.completions) == int(request.completed)

    @invariant()
    def the_counts_are_right(self):
        pending = [request for request in self.requests if not request.completed]
        assert self.purgatory.num_delayed == len(pending) == self.timers.size
        assert self.purgatory.watched == sum(len(request.keys) for request in pending)

    def teardown(self):
        """Let the deadline of every waiting operation pass."""
        for _ in range(2):  # the last ones may add others
            self.now_ms += 1000
            self.timers.advance(self.now_ms)
        self.each_operation_completed_once_or_waits()
        assert self.purgatory.num_delayed == 0
        assert all(request.completed for request in self.requests)


def test_each_operation_completes_exactly_once():
    """Under any interleaving of reply, deadline, disconnect, drain and check."""
    run_state_machine_as_test(Broker)
