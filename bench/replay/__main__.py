"""`python -m bench.replay`: what a request takes; writes the ceilings of the tests and its section of RESULTS.md.

The source is measured in calls, the compiled build in instructions: both are exact, and need no quiet machine. With
`--cases` only the calls of these are printed, and nothing is written.
"""

import sys
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from bench.goals import Goal, goal_table, tell
from bench.harness import BenchError
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import unpack_compiled
from bench.harness.figures import spread
from bench.harness.machine import describe, today
from bench.harness.markdown import columns, facts_line, write_section
from bench.replay import ceilings
from bench.replay.calls import count_calls
from bench.replay.cases import CASES, Case
from bench.replay.instructions import count_instructions, missing

METHOD: Final = """\
Made by `make bench-replay`: one request and its reply through a session, or through the event loop and sockets in the
same process, or a whole connection. The source is measured in calls of functions, the compiled build in instructions
(Callgrind). Both are exact, so `make test` holds each case to a ceiling just above. Of the event loop its steps are
counted, not the driver that calls them, and not the kernel."""


def measure() -> dict[str, dict[str, int]]:
    """Return the counts by kind and case.

    Raises:
        BenchError: nothing can be compiled here, or a case failed.
    """
    if reason := missing():
        raise BenchError(reason)
    found = {ceilings.CALLS: {case.name: count_calls(case) for case in CASES}}
    with tempfile.TemporaryDirectory(prefix="sluice-replay-") as parent:
        for kind in (ceilings.INSTRUCTIONS, ceilings.UNOPTIMISED):
            folder = Path(parent) / kind.replace(" ", "-")
            unpack_compiled(folder, optimised=kind == ceilings.INSTRUCTIONS)
            found[kind] = count_instructions(folder)
    return found


def goals(instructions: Mapping[str, int]) -> list[Goal]:
    """Return the goals of the compiled build."""
    return [
        Goal(
            f"instructions, {case.name}",
            "",
            spread([instructions[case.name]]),
            case.must,
            at_least=False,
            aim=case.aim,
            digits=0,
        )
        for case in CASES
        if case.must is not None
    ]


def section(measured: Mapping[str, Mapping[str, int]], facts: Mapping[str, str]) -> str:
    """Return the section of RESULTS.md."""

    def of(kind: str, case: Case) -> str:
        return f"{measured[kind][case.name]:,}"

    rows = columns(
        CASES,
        [
            ("", lambda case: case.name),
            ("source, calls", lambda case: of(ceilings.CALLS, case)),
            ("compiled, instructions", lambda case: of(ceilings.INSTRUCTIONS, case)),
        ],
    )
    table = goal_table(goals(measured[ceilings.INSTRUCTIONS]))
    return "\n\n".join(["## Instructions of a request", METHOD, table, rows, facts_line(facts)])


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = options("bench.replay", __doc__)
    parser.add_argument(
        "--cases", default="", help="a pattern: print the calls of these cases only"
    )
    given = parser.parse_args(arguments)
    if given.cases:
        for case in CASES:
            if fnmatchcase(case.name, given.cases):
                print(f"{count_calls(case):8,} {case.name}")
        return 0
    measured = measure()
    ceilings.save(measured)
    write_section(given.out, "replay", section(measured, {"date": today(), **describe()}))
    tell(goals(measured[ceilings.INSTRUCTIONS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
