"""The line for memory: the claim that is expected to end first comes first, and its place does not move by itself."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.memory.waiting_line import WaitingLine

CLAIMS = st.sampled_from("abcdef")
TIMES_MS = st.integers(0, 20)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), CLAIMS, TIMES_MS),
        st.tuples(st.just("move"), CLAIMS, TIMES_MS),
        st.tuples(st.just("discard"), CLAIMS, st.just(0)),
    ),
    max_size=80,
)


def drained(line: WaitingLine[str]) -> list[str]:
    """Return the claims in the order in which they are served; the line is empty then."""
    found = []
    while (place := line.first()) is not None:
        found.append(place.claim)
        line.discard(place.claim)
    return found


@given(STEPS)
def test_it_serves_as_a_sorted_list_does(steps: list[tuple[str, str, int]]) -> None:
    """For claims that come, move and leave in any order: by time, and equal ones by the step that placed them."""
    line: WaitingLine[str] = WaitingLine()
    model: dict[str, tuple[int, int]] = {}
    for number, (verb, claim, ends_ms) in enumerate(steps):
        if verb == "discard":
            line.discard(claim)
            model.pop(claim, None)
        elif verb == "add":
            line.add(claim, number, ends_ms)
            model[claim] = ends_ms, number
            assert line.places[claim].size_bytes == number
        elif claim in model:
            line.move(claim, ends_ms)
            if model[claim][0] > 0:
                model[claim] = ends_ms, number
        expected = min(model, key=model.__getitem__, default=None)
        first = line.first()
        assert (None if first is None else first.claim) == expected
        assert set(line) == set(line.places) == set(model)
        assert len(line) == len(model)
    assert drained(line) == sorted(model, key=model.__getitem__)


def test_a_newcomer_is_compared_with_the_first_that_still_waits() -> None:
    """One that has left precedes none; an equal time does."""
    line: WaitingLine[str] = WaitingLine()
    assert not line.precedes(10)
    line.add("a", 1, 10)
    assert [line.precedes(ends_ms) for ends_ms in (9, 10, 11)] == [False, True, True]
    line.discard("a")
    assert not line.precedes(11)


def test_places_that_claims_have_left_do_not_pile_up() -> None:
    """A claim that moves on each read would else keep memory that is not counted."""
    line: WaitingLine[str] = WaitingLine()
    for ends_ms in range(1, 1_000):
        line.add("a", 1, ends_ms)
        lists = [each for each in gc.get_referents(line) if isinstance(each, list | dict)]
        assert max(map(len, lists)) <= 2 * len(line) + 17

    assert drained(line) == ["a"]
