"""Held requests move to a new chain a part at a time, the oldest first."""

from proxy.core.purgatory.timers import Timers
from proxy.core.session.held_moves import MOVED_AT_ONCE, HeldMoves


class FakeHeld:
    """A held request: when it began to wait, whether its holder stays, and when it moved and ended."""

    def __init__(self, since_us: int, *, stays: bool = True) -> None:
        self.since_us = since_us
        self.stays = stays
        self.moved_to: list[object] = []
        self.gone: object = None
        self.ended_ms: int | None = None

    def move(self, chain: object, gone: object) -> bool:
        self.moved_to.append(chain)
        self.gone = gone
        return self.stays

    def force_complete(self, now_ms: int) -> bool:
        self.ended_ms = now_ms
        return True


CHAIN = object()


def begun(held: list[FakeHeld], gone: tuple[str, ...] = ()) -> tuple[HeldMoves, Timers]:
    timers = Timers(0)
    moves = HeldMoves(timers)
    moves.begin(held, CHAIN, gone, 0)  # type: ignore[arg-type] # fakes
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


def test_a_second_replacement_moves_each_request_once_to_the_newest_chain():
    """A part at a time, as before; those that had moved to the chain between move again."""
    held = [FakeHeld(n) for n in range(3 * MOVED_AT_ONCE)]
    moves, timers = begun(held)
    timers.advance(0)
    newest = object()
    moves.begin(held, newest, (), 0)  # type: ignore[arg-type] # fakes
    for now_ms in (1, 2, 3):
        timers.advance(now_ms)
        assert sum(newest in each.moved_to for each in held) == now_ms * MOVED_AT_ONCE
    assert [each.moved_to for each in held] == [[CHAIN, newest]] * MOVED_AT_ONCE + [[newest]] * (
        2 * MOVED_AT_ONCE
    )
    assert timers.next_ms() is None


def test_a_holder_that_one_of_two_replacements_left_out_is_gone():
    """Another policy with its name may be there since the second one."""
    unmoved = FakeHeld(1)
    moves, timers = begun([unmoved], gone=("a",))
    moves.begin([unmoved], CHAIN, ("b",), 0)  # type: ignore[arg-type] # fakes
    timers.advance(0)
    assert unmoved.gone == {"a", "b"}
