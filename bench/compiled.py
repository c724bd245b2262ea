"""`python -m bench.compiled`: the source, the compiled build and HAProxy in one run; writes its section of RESULTS.md.

The compiled wheel is built from this checkout. It runs without a policy, and with a quota that no client reaches. The
source runs twice in the same rounds (A/A), to show the noise of the machine. All else is as in `python -m bench`, and
other proxies can be given as there.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.compiled_peers import peer_goals, peer_part
from bench.figures import Sample, Samples
from bench.goals import Goal, goal_table, min_goal, tell
from bench.harness import BenchError
from bench.harness.command import first_warm_s, options, peer_options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, today
from bench.harness.markdown import columns, facts_table, write_section
from bench.measure import measure, running_bench
from bench.shapes import Shape, choose
from bench.variants import (
    HAPROXY,
    Place,
    Variant,
    first_line,
    haproxy_command,
    parse_peer,
    quota_command,
    sluice_command,
)

FIRST_WARM_S: Final = 5.0
"""The default of `--first-warm` with a peer."""
SHAPES: Final = "small-1,small-10,small-100,small-1000,deep-10,deep-16,fetch-10,produce-10"
PURE, COMPILED, AGAIN, QUOTA = "pure", "compiled", "pure again", "compiled+quota"
BULK: Final = ("fetch-10", "produce-10")
GOALS: Final = (
    (COMPILED, "compiled", ("small-10", "small-100", "small-1000"), 0.90, 1.0),
    (COMPILED, "compiled", ("deep-10",), 0.80, 0.95),
    (COMPILED, "compiled", ("deep-16",), 0.75, 0.95),
    (COMPILED, "compiled", BULK, 1.3, 1.6),
    (QUOTA, "compiled, with a quota", ("small-10", "small-100", "small-1000"), 0.85, 0.95),
    (QUOTA, "compiled, with a quota", ("deep-10", "deep-16"), 0.70, 0.95),
    (PURE, "pure", ("small-10",), 0.70, None),
    (PURE, "pure", ("small-100",), 0.62, None),
    (PURE, "pure", ("deep-10",), 0.50, None),
)
"""Variant, its words, shapes, and the efficiency that must be reached, and that is aimed at."""
METHOD: Final = """\
Made by `make bench-compiled`. Both builds are of the same source ([the compiled build](../docs/compiled.md)), without a
policy; *with a quota*: every user has a request rate that no client reaches. CPU µs a request are medians over the
rounds. *compiled / pure* is the median of the ratios taken inside each round, A/A the same for the source against
itself: a smaller difference is noise. *Efficiency* is HAProxy's CPU divided by that of the build, in the same round."""


def in_folder(program: Path, folder: Path) -> list[str]:
    """Return the beginning of a command that runs this `sluice` with the modules of `folder`."""
    return [shutil.which("env") or "env", f"PYTHONPATH={folder}", str(program)]


def compiled(program: Path, folder: Path, nodes: str = "0-0") -> Variant:
    """Return the variant of an unpacked compiled wheel. Raises BenchError if it is not compiled."""
    version = first_line([*in_folder(program, folder), "version"])
    if not version.endswith(f", {COMPILED})"):
        raise BenchError(f"the wheel in {folder} is not compiled: {version}")
    return Variant(
        COMPILED, version, _moved(sluice_command(program, nodes), program, folder), peer=False
    )


def _moved(
    source: Callable[[Place], list[str]], program: Path, folder: Path
) -> Callable[[Place], list[str]]:
    """Return the same command with the modules of `folder`."""
    return lambda place: in_folder(program, folder) + source(place)[1:]


def variants(program: Path, folder: Path) -> list[Variant]:
    """Return the source twice, the compiled build without and with a quota, and HAProxy if it is installed."""
    version = first_line([str(program), "version"])
    found = [Variant(each, version, sluice_command(program), peer=False) for each in (PURE, AGAIN)]
    found.append(compiled(program, folder))
    quota = _moved(quota_command(program), program, folder)
    found.append(Variant(QUOTA, found[-1].version, quota, peer=False))
    if path := shutil.which(HAPROXY):
        found.append(Variant(HAPROXY, first_line([path, "-v"]), haproxy_command(path)))
    return found


def section(
    samples: Samples, shapes: list[Shape], facts: dict[str, str], peers: Sequence[str] = ()
) -> str:
    """Return the section of RESULTS.md; `peers` are the names of other proxies."""

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
            ("with a quota, CPU µs", cpu(QUOTA)),
            ("HAProxy, CPU µs", cpu(HAPROXY)),
            ("compiled / pure", ratio(COMPILED)),
            ("A/A", ratio(AGAIN)),
            ("efficiency, pure", efficiency(PURE)),
            ("efficiency, compiled", efficiency(COMPILED)),
            ("efficiency, with a quota", efficiency(QUOTA)),
        ],
    )
    reached = goal_table(goals(samples, shapes, peers))
    beside = peer_part(samples, shapes, peers, {PURE: "pure", COMPILED: "compiled"})
    return "\n\n".join(
        ["## The compiled build", METHOD, reached, shown, *beside, facts_table(facts)]
    )


def goals(samples: Samples, shapes: list[Shape], peers: Sequence[str] = ()) -> list[Goal]:
    """Return the goals of the shapes that were chosen: the efficiency against HAProxy in the same rounds, and peers."""
    titles = {shape.name: shape.title for shape in shapes}
    return [
        replace(
            min_goal(
                f"{words}, {titles[name]}", "", samples.efficiency(name, variant, HAPROXY), must
            ),
            aim=aim,
        )
        for variant, words, names, must, aim in GOALS
        for name in names
        if name in titles
    ] + peer_goals(samples, shapes, peers, COMPILED)


def _cpu_ratio(ours: Sample, base: Sample) -> float:
    return ours.cpu_us / base.cpu_us if base.cpu_us else 1.0


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if a run failed."""
    parser = options("bench.compiled", __doc__, rounds=11, seconds=0.5, seed=1)
    parser.add_argument("--shapes", default=SHAPES, help="comma-separated; empty: all")
    peer_options(parser)
    given = parser.parse_args(arguments)
    shapes, peers = choose(given.shapes), [parse_peer(text) for text in given.peer]
    first_warm = first_warm_s(given, FIRST_WARM_S)
    if reason := missing():
        raise BenchError(reason)
    with tempfile.TemporaryDirectory(prefix="sluice-compiled-") as parent, running_bench() as bench:
        folder = Path(parent) / "wheel"
        unpack_compiled(folder)
        found = variants(Path(sys.executable).with_name("sluice"), folder)
        found += peers
        samples = measure(
            bench, found, shapes, given.rounds, given.seconds, 0.1, given.seed, first_warm
        )
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
        "before the first round": f"{first_warm:g} s of each shape through each variant",
        **describe(),
    }
    facts |= {each.name: each.version for each in found if each.name not in {AGAIN, QUOTA}}
    names = [each.name for each in peers]
    text = section(samples, shapes, facts, names)
    write_section(given.out, "compiled", text)
    print(text)
    tell(goals(samples, shapes, names))
    return 1 if samples.failures else 0


if __name__ == "__main__":
    sys.exit(main())
