"""`python -m bench`: build, measure, write bench/RESULTS.md and bench/results.svg.

Everything runs on loopback, and every process started here is ended. The results are written even if a goal is not
met; the exit code is 1 only if Sluice could not be measured. Without Cython or a C compiler there is only the source.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.builds import both_builds
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
from bench.variants import COMPILED, COMPILED_QUOTA, DIRECT, NO_PROXY, SLUICE, SLUICE_QUOTA, Variant

QUICK = {
    "rounds": 2,
    "seconds": 0.3,
    "warm": 0.1,
    "first_warm": 1.0,
    "starts": 2,
    "idle_seconds": 2.0,
}
FULL = {
    "rounds": 21,
    "seconds": 0.3,
    "warm": 0.1,
    "first_warm": 5.0,
    "starts": 5,
    "idle_seconds": 10.0,
}
"""Many short rounds: what disturbs a machine lasts for seconds, and a median needs many that it did not reach.
`first_warm` is that with a peer; without one it is 0.
"""
QUICK_VARIANTS = "direct,sluice,sluice-compiled,relay,haproxy"
OWN = frozenset((SLUICE, SLUICE_QUOTA, COMPILED, COMPILED_QUOTA))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = options("bench", __doc__, seed=1)
    made.add_argument(
        "--quick", action="store_true", help="about a minute; too short for conclusions"
    )
    made.add_argument("--shapes", default="", help="comma-separated; default: all")
    made.add_argument("--variants", default="", help="comma-separated; default: all installed")
    peer_options(made)
    made.add_argument("--rounds", type=int)
    made.add_argument("--seconds", type=float, help="duration of a run")
    made.add_argument("--warm", type=float, help="warm-up of a run, seconds")
    made.add_argument("--version", type=int, default=11, choices=(9, 10, 11), help="of Produce")
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
    preset = QUICK if given.quick else FULL
    rounds = int(given.rounds or preset["rounds"])
    seconds, warm = given.seconds or preset["seconds"], given.warm or preset["warm"]
    first_warm = first_warm_s(given, preset["first_warm"])
    shapes = choose(given.shapes)
    limit = raise_descriptor_limit()
    wanted = [1000] if given.quick else [1000, 5000]
    pairs = [count for count in wanted if 2 * count + 200 < limit]
    footprints: dict[str, Footprint] = {}
    names = given.variants or (QUICK_VARIANTS if given.quick else "")
    with (
        tempfile.TemporaryDirectory(prefix="sluice-wheel-") as parent,
        running_bench(given.version) as bench,
    ):
        own = both_builds(_maybe_wheel(Path(parent) / "wheel", names))
        peers = installed_peers(bench.programs["relay"], given.peer)
        variants = _choose([NO_PROXY, *own, *peers], names)
        samples = measure(bench, variants, shapes, rounds, seconds, warm, given.seed, first_warm)
        for variant in variants:
            if variant.command is None or given.no_footprint:
                continue
            try:
                footprints[variant.name] = bench.footprint(
                    variant, pairs, int(preset["starts"]), preset["idle_seconds"]
                )
            except BenchError as error:
                samples.failures["start and memory", variant.name] = str(error)
    facts = {
        "date": today(),
        "rounds": f"{rounds} of {seconds:g} s each, {warm:g} s warm-up",
        "before the first round": f"{first_warm:g} s of each shape through each given peer",
        "requests": f"Produce v{given.version}, Fetch v12",
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


def _choose(found: list[Variant], names: str) -> list[Variant]:
    wanted = [name for name in names.split(",") if name]
    missing = [name for name in wanted if name not in {variant.name for variant in found}]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    chosen = [variant for variant in found if not wanted or variant.name in wanted]
    if not any(variant.name != DIRECT for variant in chosen):
        raise BenchError("nothing to measure: no proxy among the variants")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
