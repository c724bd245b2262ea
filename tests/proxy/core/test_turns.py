"""The order of turns: fair shares of time, light sessions first, and no session starves. Time is the test's."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.turns import (
    CREDIT_ENDS,
    CREDIT_US,
    SHORT_LABOUR_BYTES,
    TURN_LABOUR_BYTES,
    ScheduledSession,
    Turns,
)

TURN_US = 1_000


class Waiting(ScheduledSession):
    """A session as the order of turns sees it."""

    def __init__(self, name: int = 0) -> None:
        super().__init__()
        self.name = name
        self.had_us = 0


class Queue(Turns):
    """Turns of fake sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.spent_us = 0
        self.given_bytes = 0  # the labour of the last turn

    def serve(self, cost_us: int = TURN_US, *, again: bool = False) -> Waiting:
        """Give the next turn, which takes `cost_us`; return its session, which may wait again."""
        session = self.take()
        assert isinstance(session, Waiting)
        self.given_bytes = self.labour_bytes
        session.had_us += cost_us
        self.spent_us += cost_us
        if again:
            self.add(session)
        self.end(session, cost_us)
        return session


def greedy(turns: Queue, count: int) -> list[Waiting]:
    """Return sessions that always wait; each has had several turns."""
    crowd = [Waiting(name) for name in range(count)]
    for each in crowd:
        turns.add(each)
    for _ in range(15 * count):
        turns.serve(again=True)
    return crowd


def test_sessions_that_have_used_the_same_have_their_turns_in_order_of_arrival():
    """Each waits once, however often it is added."""
    turns = Queue()
    crowd = [Waiting(name) for name in range(5)]
    for each in (*crowd, *crowd):
        turns.add(each)
    assert len(turns.queue) == 5
    assert [turns.serve(0).name for _ in crowd] == [0, 1, 2, 3, 4]
    assert not turns.queue
    with pytest.raises(IndexError):
        turns.take()


def test_a_session_that_is_added_during_its_own_turn_waits_from_the_end_of_it():
    """It is charged first, so another session that waits precedes it."""
    turns = Queue()
    first, second = Waiting(1), Waiting(2)
    turns.add(first)
    turns.add(second)
    assert turns.serve(again=True) is first
    assert first.ready
    assert [turns.serve(), turns.serve()] == [second, first]
    assert not first.ready


@pytest.mark.parametrize("count", [10, 300])
def test_a_session_that_asks_little_does_not_wait_for_those_that_ask_much(count):
    """Its wait does not depend on their number: only the turn that runs already precedes its own."""
    turns = Queue()
    greedy(turns, count)
    honest = Waiting(-1)
    for _ in range(50):
        turns.add(honest)
        assert turns.serve(100) is honest
        for _ in range(count // 5):  # it uses half of a fair share
            assert turns.serve(again=True) is not honest


def test_a_session_that_asks_as_much_as_the_others_gets_no_more_than_they():
    """A new session may use CREDIT_US before it waits like the others."""
    turns = Queue()
    crowd = greedy(turns, 20)
    before = [each.had_us for each in crowd]
    late = Waiting(-1)
    turns.add(late)
    for _ in range(2_000):
        turns.serve(again=True)
    shares = [each.had_us - had for each, had in zip(crowd, before, strict=True)]
    mean_us = sum(shares) / len(shares)
    assert late.had_us == pytest.approx(mean_us, abs=CREDIT_US + 2 * TURN_US)


@given(
    costs_us=st.lists(st.integers(10, 5_000), min_size=2, max_size=30), rounds=st.integers(5, 30)
)
def test_sessions_that_always_wait_get_equal_time_for_turns_of_any_cost(costs_us, rounds):
    """A session with long turns has fewer of them."""
    turns = Queue()
    crowd = [Waiting(name) for name in range(len(costs_us))]
    for each in crowd:
        turns.add(each)
    while turns.spent_us < rounds * sum(costs_us):
        session = turns.queue[0][2]
        assert isinstance(session, Waiting)
        turns.serve(costs_us[session.name], again=True)
    had_us = [each.had_us for each in crowd]
    assert max(had_us) - min(had_us) <= 2 * max(costs_us)


@given(
    count=st.integers(1, 20),
    new=st.integers(1, 5),
    costs_us=st.lists(st.integers(50, TURN_US), min_size=1, max_size=5),
)
def test_no_session_starves_while_new_ones_arrive_without_end(count, new, costs_us):
    """The work before its turn is bounded: a fair share beyond its account and the credit of new sessions."""
    turns = Queue()
    crowd = greedy(turns, count)
    victim = crowd[0]
    for _ in range(new):
        turns.add(Waiting(-1))
    bound_us = turns.spent_us + CREDIT_ENDS * (CREDIT_US + 4 * TURN_US) * (count + new + 1)
    for cost_us in cycle(costs_us):
        served = turns.serve(cost_us)
        if served is victim:
            break
        turns.add(Waiting(-1) if served.name < 0 else served)
        assert turns.spent_us <= bound_us


def test_the_first_turn_after_a_rest_is_short_if_others_wait():
    """Clients that begin at once are each served a request before any of them has a whole turn."""
    turns = Queue()
    for name in range(300):
        turns.add(Waiting(name))
    labour = []
    for _ in range(600):
        turns.serve(100 if turns.spent_us < 30_000 else TURN_US, again=True)
        labour.append(turns.given_bytes)
    assert labour == [SHORT_LABOUR_BYTES] * 300 + [TURN_LABOUR_BYTES] * 300
    alone = Queue()
    alone.add(Waiting())
    alone.serve()
    assert alone.given_bytes == TURN_LABOUR_BYTES
