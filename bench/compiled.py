"""`python -m bench.compiled`: the source, the compiled build and HAProxy in one run; writes its section of RESULTS.md.

The compiled wheel is built from this checkout. The source runs twice in the same rounds (A/A), to show the noise of the
machine. Everything else is as in `python -m bench`.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.figures import Sample, Samples
from bench.harness import BenchError
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, today
from bench.harness.markdown import columns, facts_table, write_section
from bench.measure import measure, running_bench
from bench.shapes import Shape, choose
from bench.variants import HAPROXY, Place, Variant, first_line, haproxy_command, sluice_command

SHAPES: Final = "small-1,small-10,small-100,deep-10,deep-16,fetch-10,produce-10"
PURE, COMPILED, AGAIN = "pure", "compiled", "pure again"
METHOD: Final = """\
Made by `make bench-compiled`. Both builds are of the same source ([the compiled build](../docs/compiled.md)), without a
policy. CPU µs a request are medians over the rounds. *compiled / pure* is the median of the ratios taken inside each
round, A/A the same for the source against itself: a smaller difference is noise. *Efficiency* is HAProxy's CPU divided
by that of the build, in the same round."""


def in_folder(program: Path, folder: Path) -> list[str]:
    """Return the beginning of a command that runs this `sluice` with the modules of `folder`."""
    return [shutil.which("env") or "env", f"PYTHONPATH={folder}", str(program)]


def compiled(program: Path, folder: Path, nodes: str = "0-0") -> Variant:
    """Return the variant of an unpacked compiled wheel. Raises BenchError if it is not compiled."""
    version = first_line([*in_folder(program, folder), "version"])
    if not version.endswith(f", {COMPILED})"):
        raise BenchError(f"the wheel in {folder} is not compiled: {version}")
    source = sluice_command(program, nodes)

    def command(place: Place) -> list[str]:
        return in_folder(program, folder) + source(place)[1:]

    return Variant(COMPILED, version, command, peer=False)


def variants(program: Path, folder: Path) -> list[Variant]:
    """Return the source twice, the compiled build, and HAProxy if it is installed."""
    version = first_line([str(program), "version"])
    found = [Variant(each, version, sluice_command(program), peer=False) for each in (PURE, AGAIN)]
    found.append(compiled(program, folder))
    if path := shutil.which(HAPROXY):
        found.append(Variant(HAPROXY, first_line([path, "-v"]), haproxy_command(path)))
    return found


def section(samples: Samples, shapes: list[Shape], facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""

    def cpu(name: str) -> Callable[[Shape], str]:
        def text(shape: Shape) -> str:
            found = samples.of(shape.name, name, lambda each: each.cpu_us)
            return "-" if found is None else f"{found.median:,.2f}"

        return text

    def ratio(name: str) -> Callable[[Shape], str]:
        def text(shape: Shape) -> str:
            found = samples.between(shape.name, name, PURE, _cpu_ratio)
            return "-" if found is None else found.text(2)

        return text

    def efficiency(name: str) -> Callable[[Shape], str]:
        def text(shape: Shape) -> str:
            found = samples.efficiency(shape.name, name, HAPROXY)
            return "-" if found is None else found.text(2)

        return text

    shown = columns(
        shapes,
        [
            ("", lambda shape: shape.title),
            ("pure, CPU µs", cpu(PURE)),
            ("compiled, CPU µs", cpu(COMPILED)),
            ("HAProxy, CPU µs", cpu(HAPROXY)),
            ("compiled / pure", ratio(COMPILED)),
            ("A/A", ratio(AGAIN)),
            ("efficiency, pure", efficiency(PURE)),
            ("efficiency, compiled", efficiency(COMPILED)),
        ],
    )
    return "\n\n".join(["## The compiled build", METHOD, shown, facts_table(facts)])


def _cpu_ratio(ours: Sample, base: Sample) -> float:
    return ours.cpu_us / base.cpu_us if base.cpu_us else 1.0


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if a run failed."""
    parser = options("bench.compiled", __doc__, rounds=15, seconds=0.5, seed=1)
    parser.add_argument("--shapes", default=SHAPES, help="comma-separated; empty: all")
    given = parser.parse_args(arguments)
    shapes = choose(given.shapes)
    if reason := missing():
        raise BenchError(reason)
    with tempfile.TemporaryDirectory(prefix="sluice-compiled-") as parent, running_bench() as bench:
        folder = Path(parent) / "wheel"
        unpack_compiled(folder)
        found = variants(Path(sys.executable).with_name("sluice"), folder)
        samples = measure(bench, found, shapes, given.rounds, given.seconds, 0.1, given.seed)
    facts = {"date": today(), "rounds": f"{given.rounds} of {given.seconds:g} s each", **describe()}
    facts |= {each.name: each.version for each in found if each.name != AGAIN}
    text = section(samples, shapes, facts)
    write_section(given.out, "compiled", text)
    print(text)
    return 1 if samples.failures else 0


if __name__ == "__main__":
    sys.exit(main())
