"""Held requests move to a new chain a part at a time, the oldest first."""

from __future__ import annotations

from proxy.core.purgatory.timers import Timers
from proxy.core.session.held_moves import MOVED_AT_ONCE, HeldMoves


class FakeHeld:
    """A held request: when it began to wait, whether its holder stays, and when it moved and ended."""

    def __init__(self, since_us: int, *, stays: bool = True) -> None:
        self.since_us = since_us
        self.stays = stays
        self.moved_to: list[object] = []
        self.ended_ms: int | None = None

    def move(self, chain: object, gone: object) -> bool:
        self.moved_to.append(chain)
        return self.stays

    def force_complete(self, now_ms: int) -> bool:
        self.ended_ms = now_ms
        return True


CHAIN = object()


def begun(held: list[FakeHeld]) -> tuple[HeldMoves, Timers]:
    timers = Timers(0)
    moves = HeldMoves(timers)
    moves.begin(held, CHAIN, (), 0)  # type: ignore[arg-type] # fakes
    return moves, timers


def test_one_part_moves_each_millisecond_the_oldest_first():
    """And none moves twice."""
    held = [FakeHeld(10_000 - n) for n in range(2 * MOVED_AT_ONCE + 1)]
    _, timers = begun(held)
    assert not any(each.moved_to for each in held)
    for now_ms, count in enumerate([MOVED_AT_ONCE, 2 * MOVED_AT_ONCE, 2 * MOVED_AT_ONCE + 1]):
        timers.advance(now_ms)
        assert [each.moved_to for each in reversed(held)] == [
            [CHAIN] if place < count else [] for place in range(len(held))
        ]
    assert timers.next_ms() is None


def test_the_wait_of_a_request_whose_holder_is_gone_ends_with_its_move():
    """The others wait on."""
    stays, gone = FakeHeld(1), FakeHeld(2, stays=False)
    _, timers = begun([stays, gone])
    timers.advance(5)
    assert (stays.ended_ms, gone.ended_ms) == (None, 5)


def test_a_request_that_is_asked_about_before_its_turn_moves_first():
    """It is not moved again when its turn comes."""
    held = FakeHeld(1, stays=False)
    moves, timers = begun([held])
    assert not moves.move(held)  # type: ignore[arg-type] # a fake
    assert moves.move(held)  # type: ignore[arg-type] # a fake; it has moved
    timers.advance(1)
    assert (held.moved_to, held.ended_ms) == ([CHAIN], None)


def test_what_is_left_of_a_move_can_be_finished_at_once():
    """For the next reload."""
    held = [FakeHeld(n, stays=n != 5) for n in range(3 * MOVED_AT_ONCE)]
    moves, _ = begun(held)
    moves.finish(7)
    assert all(each.moved_to == [CHAIN] for each in held)
    assert [each.since_us for each in held if each.ended_ms == 7] == [5]
