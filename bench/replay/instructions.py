"""Counts the instructions of a play in the compiled build, by Callgrind. Neither speed nor load changes them.

As a program it is the process that Callgrind watches: `instructions CASE ...`.
"""

import gc
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from bench.harness import ROOT, BenchError
from bench.harness.compiled_build import build_module
from bench.harness.compiled_build import missing as missing_compiler
from bench.replay.cases import CASES, Case
from bench.replay.connection_play import ConnectionPlay
from bench.replay.plays import LoopPlay, Play, SessionPlay, warm_play
from proxy.cli import builds

PLAYS: Final = 10
NOTHING: Final = "without a session: "
"""Before the name of a case: what the play itself takes."""
SOURCE: Final = Path(__file__).with_name("instrumentation.pyx")
_NAME: Final = re.compile(r"^desc: Trigger: Client Request: (.*)$", re.MULTILINE)
_TOTAL: Final = re.compile(r"^(?:totals|summary): (\d+)$", re.MULTILINE)


def missing() -> str:
    """Return in words why nothing can be counted here; "" if nothing is missing."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return "valgrind is not installed"
    if not (Path(valgrind).parents[1] / "include/valgrind/callgrind.h").is_file():
        return "valgrind's headers are not installed"
    return missing_compiler()


def count_instructions(folder: Path, cases: Iterable[Case] = CASES) -> dict[str, int]:
    """Return the instructions of one request and its reply by case, with the modules of `folder`.

    What a play itself takes is not among them: it is subtracted, or only the steps of the event loop are counted.

    Raises:
        BenchError: the build is not compiled, or a case failed.
    """
    cases = list(cases)
    with tempfile.TemporaryDirectory(prefix="sluice-replay-") as parent:
        scratch = Path(parent)
        build_module(SOURCE, scratch)
        out = scratch / "out"
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--collect-atstart=no",
            f"--callgrind-out-file={out}",
        ]
        command += [sys.executable, "-P", "-m", "bench.replay.instructions"]
        paths = os.pathsep.join(map(str, (folder, ROOT, scratch)))
        environ = {"PYTHONPATH": paths, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [*command, *(case.name for case in cases)],
            env={**os.environ, **environ},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or done.stdout.strip() != "compiled":
            raise BenchError(f"not counted: {done.stdout[-200:]} {done.stderr.strip()[-1000:]}")
        totals = dict(_read(file) for file in scratch.glob("out.*"))
    return {
        case.name: -(-(totals[case.name] - totals.get(NOTHING + case.name, 0)) // case.batch)
        for case in cases
    }


def _read(file: Path) -> tuple[str, int]:
    """Return the name of a dump, and its instructions for one play."""
    text = file.read_text()
    name, total = _NAME.search(text), _TOTAL.search(text)
    if name is None or total is None:
        return "", 0
    return name[1], int(total[1]) // PLAYS


def main(names: list[str]) -> None:
    """Play these cases, and let Callgrind write what each took."""
    print(builds.running())
    for case in CASES:
        if case.name in names:
            with warm_play(case) as play:
                _count(play, case.name)
            if case.through == "session":
                _count(SessionPlay(case, idle=True), NOTHING + case.name)


def _count(play: Play, name: str) -> None:
    callgrind = importlib.import_module("instrumentation")
    play.once()
    gc.collect()
    gc.disable()
    callgrind.start()
    if isinstance(play, LoopPlay | ConnectionPlay):
        play.step = _counted(play.step, callgrind.toggle)
    else:
        callgrind.toggle()
    for _ in range(PLAYS):
        play.once()
    if not isinstance(play, LoopPlay | ConnectionPlay):
        callgrind.toggle()
    callgrind.stop(name)
    gc.enable()


def _counted(step: Callable[[float], int], toggle: Callable[[], None]) -> Callable[[float], int]:
    """Return a step whose instructions are counted."""

    def counted(timeout_s: float) -> int:
        toggle()
        handled = step(timeout_s)
        toggle()
        return handled

    return counted


if __name__ == "__main__":
    main(sys.argv[1:])
