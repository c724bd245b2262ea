"""Counts the calls of a play in the source: those of its functions, and of C functions by them. The count is exact."""

import gc
import sys
from types import FrameType
from typing import Final

from bench.harness import ROOT
from bench.replay.cases import Case
from bench.replay.plays import warm_play

ROOMS: Final = tuple(f"{ROOT / room}/" for room in ("wire", "policies", "proxy"))
PLAYS: Final = 10


class _Counter:
    """A profile function."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_call"} and frame.f_code.co_filename.startswith(ROOMS):
            self.calls += 1


def count_calls(case: Case) -> int:
    """Return the calls of one request and its reply: the mean of some plays, rounded up."""
    counter = _Counter()
    with warm_play(case) as play:
        gc.collect()
        gc.disable()
        before = sys.getprofile()
        sys.setprofile(counter)
        try:
            for _ in range(PLAYS):
                play.once()
        finally:
            sys.setprofile(before)
            gc.enable()
    return -(-counter.calls // (PLAYS * case.batch))
