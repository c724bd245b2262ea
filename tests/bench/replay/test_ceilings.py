"""What a request may cost: no case takes more calls in the source than its ceiling.

`tests/compiled/test_instructions.py` has the compiled build's.
"""

import json
from contextlib import closing
from pathlib import Path

import pytest

from bench.replay import ceilings
from bench.replay.calls import count_calls
from bench.replay.cases import CASES, Case, produce
from bench.replay.plays import LoopPlay, warm_play


def test_no_case_takes_more_calls_than_its_ceiling() -> None:
    """Calls are exact, whatever else the machine does. `make bench-replay` sets the ceilings after a change."""
    made_with, _ = ceilings.load()
    if made_with != ceilings.HERE:
        pytest.skip(f"the ceilings are those of {made_with}, this is {ceilings.HERE}")
    counted = {case.name: count_calls(case) for case in CASES}
    assert ceilings.exceeded(ceilings.CALLS, counted) == []


def test_every_case_has_a_ceiling_of_each_kind() -> None:
    """A case that is gone leaves none behind."""
    _, found = ceilings.load()
    assert list(found) == [case.name for case in CASES]
    assert all(list(row) == list(ceilings.ROOM) for row in found.values())


def test_a_count_is_the_same_each_time() -> None:
    """So that a ceiling may be near."""
    case = CASES[0]
    assert count_calls(case) == count_calls(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.through in {"loop", "slow"}])
def test_the_event_loop_leaves_its_fast_path_for_a_broker_that_takes_a_part_only(
    case: Case,
) -> None:
    """And then for few events of each request."""
    with closing(LoopPlay(case)) as play:
        for _ in range(20):  # the first ones learn how much the broker takes
            play.once()
        before = play.slow_kinds()
        for _ in range(20):
            play.once()
        counted = [after - early for early, after in zip(before, play.slow_kinds(), strict=True)]

    assert max(counted) <= (40 if case.through == "slow" else 0)
    assert any(counted) is (case.through == "slow")


def test_a_play_whose_bytes_do_not_all_pass_is_an_error() -> None:
    """A case that measures nothing must not be cheap: here the request is not whole."""
    whole = produce(13, 4, 4000)
    cut = Case("cut", whole._replace(request=whole.request[:-9]))
    with pytest.raises(RuntimeError, match="cut: "), warm_play(cut):
        pass


def test_a_reply_that_is_rewritten_in_place_comes_anew_in_each_play() -> None:
    """Else the second play would measure how a session ends."""
    case = next(case for case in CASES if case.is_rewritten and case.through == "session")
    with warm_play(case) as play:
        assert play.once() == play.once() > len(case.frames.request)


def test_ceilings_are_written_a_little_above_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for each case, so that a change shows which of them rises."""
    monkeypatch.setattr(ceilings, "FILE", tmp_path / "ceilings.json")
    ceilings.save({ceilings.CALLS: {"a": 100, "b": 7}, ceilings.INSTRUCTIONS: {"a": 1000, "b": 70}})

    made_with, found = ceilings.load()

    assert made_with == ceilings.HERE
    assert found["a"] == {"calls": 102, "instructions": 1050}
    assert (
        len(ceilings.FILE.read_text().splitlines())
        == len(json.loads(ceilings.FILE.read_text())) + 2
    )
    assert ceilings.exceeded(ceilings.CALLS, {"a": 102, "b": 9, "new": 1}) == [
        "b: 9 calls, the ceiling is 8",
        "new: 1 calls, the ceiling is 0",
    ]
