"""How far a reader has to go to follow one request."""

import sys
from pathlib import Path
from types import FrameType

from tests.support.core.sessions import SCRATCH, Wire
from tests.support.house.house import ROOT
from tests.support.messages import frames as f

ROOMS = tuple(f"{ROOT / room}/" for room in ("wire", "policies", "proxy"))


def test_a_first_produce_runs_through_few_files():
    """Each has a reason: a new one needs one as good."""
    warm = Wire().client(f.produce(1)).broker(f.produce_reply(1))
    session = Wire(warm.engine).session
    data = f.produce(1)
    SCRATCH[: len(data)] = data
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOMS):
            files.add(Path(frame.f_code.co_filename).name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        stop = session.from_client(SCRATCH, 0, len(data), warm.now_ms)
    finally:
        sys.setprofile(before)
    assert stop == len(data)
    assert len(files) <= 18, sorted(files)
