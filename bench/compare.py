"""`python -m bench.compare BASE`: the CPU of Sluice now and at the revision BASE, in one run.

The base runs twice in the same rounds (A/A), to show the noise of the machine. Many short rounds are interleaved in
shuffled order. CPU is the first quartile over the rounds, which disturbances move less than the median. A ratio is
taken inside each round; then the median over the rounds is taken.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.figures import Sample, Samples
from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.figures import quantile
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table
from bench.measure import measure, running_bench
from bench.shapes import Shape, choose
from bench.variants import Variant, first_line, sluice_command

SHAPES: Final = "small-1,small-10,small-100,deep-10,deep-16,fetch-10,produce-10"
ROUNDS: Final = 24
SECONDS: Final = 0.5
WARM_SECONDS: Final = 0.1
NOW, BASE, AGAIN = "now", "base", "base again"
METHOD: Final = """\
CPU µs a request: the first quartile over the rounds. *now / base* is the median of the ratios taken inside each
round; A/A is the same for the base against itself."""


@contextmanager
def checkout(revision: str, root: Path = ROOT) -> Iterator[Path]:
    """Make a worktree of the revision with its own environment; yield its folder, and remove it afterwards.

    Raises:
        BenchError: the revision is unknown, or its environment cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-base-") as parent:
        folder = Path(parent) / "base"
        _run(["git", "-C", str(root), "worktree", "add", "--detach", str(folder), revision])
        try:
            _run(["make", "-C", str(folder), ".venv/.stamp-run"])
            yield folder
        finally:
            _run(["git", "-C", str(root), "worktree", "remove", "--force", str(folder)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")


def sluice(name: str, program: Path) -> Variant:
    """Return a variant that runs this `sluice`; the run fails if it does not start."""
    return Variant(name, first_line([str(program), "version"]), sluice_command(program), peer=False)


def variants(now: Path, base: Path) -> list[Variant]:
    """Return the three variants: now, the base, and the base again."""
    return [sluice(NOW, now), sluice(BASE, base), sluice(AGAIN, base)]


def compare_table(samples: Samples, shapes: list[Shape]) -> str:
    """Return a row for each shape: CPU now and of the base, their ratio, and that of the base against itself."""
    return table(
        ["shape", "now", "base", "now / base", "A/A"],
        [
            [
                shape.title,
                _quartile(samples, shape, NOW),
                _quartile(samples, shape, BASE),
                _ratio(samples, shape, NOW),
                _ratio(samples, shape, AGAIN),
            ]
            for shape in shapes
        ],
    )


def _quartile(samples: Samples, shape: Shape, name: str) -> str:
    found = [one.cpu_us for one in samples.all() if (one.shape, one.variant) == (shape.name, name)]
    return f"{quantile(found, 0.25):,.2f}" if found else "-"


def _ratio(samples: Samples, shape: Shape, name: str) -> str:
    found = samples.between(shape.name, name, BASE, _cpu_ratio)
    return "-" if found is None else f"{found.median:.2f}"


def _cpu_ratio(ours: Sample, base: Sample) -> float:
    return ours.cpu_us / base.cpu_us if base.cpu_us else 1.0


def compare(given: argparse.Namespace) -> tuple[Samples, list[Shape]]:
    """Run what the command line asks for.

    Raises:
        BenchError: the base cannot be built, or a Sluice does not start.
        ValueError: a shape is unknown.
    """
    shapes = choose(given.shapes)
    with running_bench() as bench, checkout(given.base) as base:
        both = variants(Path(sys.executable).with_name("sluice"), base / ".venv/bin/sluice")
        samples = measure(
            bench, both, shapes, given.rounds, given.seconds, WARM_SECONDS, given.seed
        )
    return samples, shapes


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Compare and print the table; return the exit code, 1 if a run failed."""
    parser = options("bench.compare", __doc__, rounds=ROUNDS, seconds=SECONDS, seed=1)
    parser.add_argument("base", help="revision to compare with")
    parser.add_argument("--shapes", default=SHAPES, help="comma-separated; empty: all")
    given = parser.parse_args(arguments)
    samples, shapes = compare(given)
    facts = {
        "date": today(),
        "base": given.base,
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
        **describe(),
    }
    print("\n\n".join(("", METHOD, compare_table(samples, shapes), facts_line(facts))))
    return 1 if samples.failures else 0


if __name__ == "__main__":
    sys.exit(main())
