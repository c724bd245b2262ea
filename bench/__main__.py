"""`python -m bench`: build, measure, write bench/RESULTS.md and bench/results.svg.

Everything runs on loopback, and every process started here is ended. The results are written even if a goal is not
met; the exit code is 1 only if Sluice could not be measured. Without Cython or a C compiler there is only the source.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.figures import Footprint
from bench.goals import goals, tell
from bench.harness import BenchError
from bench.harness.command import first_warm_s, options, peer_options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, raise_descriptor_limit, today
from bench.harness.markdown import keep_sections, read_results, write_results
from bench.measure import measure, running_bench
from bench.peer_commands import installed_peers
from bench.report import Results, markdown, picture
from bench.shapes import choose
from bench.variants import (
    COMPILED,
    COMPILED_QUOTA,
    NO_PROXY,
    SLUICE,
    SLUICE_QUOTA,
    both_builds,
    choose_variants,
)

ROUNDS, SECONDS, WARM_S = 21, 0.3, 0.1
"""Many short rounds: what disturbs a machine lasts for seconds, and a median needs many that it did not reach."""
FIRST_WARM_S = 5.0
"""With a peer; without one it is 0."""
STARTS, IDLE_SECONDS, PAIRS = 5, 10.0, (1000, 5000)
OWN = frozenset((SLUICE, SLUICE_QUOTA, COMPILED, COMPILED_QUOTA))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = options("bench", __doc__, seed=1, rounds=ROUNDS, seconds=SECONDS, warm=WARM_S)
    made.add_argument("--shapes", default="", help="comma-separated; default: all")
    made.add_argument("--variants", default="", help="comma-separated; default: all installed")
    peer_options(made)
    made.add_argument("--no-footprint", action="store_true", help="skip memory, start and idle CPU")
    return made


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    given = parser().parse_args(arguments)
    results = run(given)
    write_results(given.out, keep_sections(read_results(given.out), markdown(results)))
    (given.out / "results.svg").write_text(picture(results))
    tell(goals(results.samples, results.footprints))
    return 1 if any(name in OWN for _, name in results.samples.failures) else 0


def run(given: argparse.Namespace) -> Results:
    """Measure what the command line asks for.

    Raises:
        BenchError: the C programs cannot be built, or no proxy was chosen.
        ValueError: a shape or a peer is unknown.
    """
    rounds, seconds, warm = given.rounds, given.seconds, given.warm
    first_warm = first_warm_s(given, FIRST_WARM_S)
    shapes = choose(given.shapes)
    limit = raise_descriptor_limit()
    pairs = [count for count in PAIRS if 2 * count + 200 < limit]
    footprints: dict[str, Footprint] = {}
    names = given.variants
    with (
        tempfile.TemporaryDirectory(prefix="sluice-wheel-") as parent,
        running_bench() as bench,
    ):
        own = both_builds(_maybe_wheel(Path(parent) / "wheel", names))
        peers = installed_peers(bench.programs["relay"], given.peer)
        variants = choose_variants([NO_PROXY, *own, *peers], names)
        samples = measure(bench, variants, shapes, rounds, seconds, warm, given.seed, first_warm)
        for variant in variants:
            if variant.command is None or given.no_footprint:
                continue
            try:
                footprints[variant.name] = bench.footprint(variant, pairs, STARTS, IDLE_SECONDS)
            except BenchError as error:
                samples.failures["start and memory", variant.name] = str(error)
    facts = {
        "date": today(),
        "rounds": f"{rounds} of {seconds:g} s each, {warm:g} s warm-up",
        "before the first round": f"{first_warm:g} s of each shape through each given peer",
        "requests": "Produce v11, Fetch v12",
    }
    versions = {variant.name: variant.version for variant in variants}
    return Results(samples, footprints, versions, describe(), facts)


def _maybe_wheel(folder: Path, names: str) -> Path | None:
    """Return `folder` with the compiled build in it; None if it is not among the names, or cannot be built here."""
    if names and not {COMPILED, COMPILED_QUOTA} & set(names.split(",")):
        return None
    if reason := missing():
        print(f"only the source is measured: {reason}")
        return None
    unpack_compiled(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
