"""The other proxies of `bench.compiled`: what they cost beside both builds, and the goals against Kroxylicious.

A figure that compares two variants is computed inside each round. Without peers there is neither a table nor a goal.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bench.figures import Samples
from bench.goals import Goal, min_goal
from bench.harness.markdown import columns
from bench.shapes import Shape

KROXYLICIOUS: Final = "kroxylicious"
"""A peer is one if its name begins so: more than one version can be given."""
MUST, AIM = 1.2, 1.8
ABOUT: Final = """\
Other proxies in the same rounds ([how to get them](peers/README.md)). Above 1 the build of Sluice
needs less CPU."""


def peer_part(
    samples: Samples, shapes: list[Shape], peers: Sequence[str], builds: dict[str, str]
) -> list[str]:
    """Return the part of the section about the peers; `builds` are variants of Sluice with their words."""
    if not peers:
        return []

    def cpu(row: tuple[Shape, str]) -> str:
        found = samples.of(row[0].name, row[1], lambda each: each.cpu_us)
        return "-" if found is None else found.text(2)

    def efficiency(build: str) -> Callable[[tuple[Shape, str]], str]:
        def text(row: tuple[Shape, str]) -> str:
            found = samples.efficiency(row[0].name, build, row[1])
            return "-" if found is None else found.text(2)

        return text

    shown = columns(
        [(shape, peer) for shape in shapes for peer in peers],
        [
            ("", lambda row: row[0].title),
            ("proxy", lambda row: row[1]),
            ("CPU µs", cpu),
            *((f"its CPU / that of {words}", efficiency(build)) for build, words in builds.items()),
        ],
    )
    return [ABOUT, shown]


def peer_goals(
    samples: Samples, shapes: list[Shape], peers: Sequence[str], build: str
) -> list[Goal]:
    """Return the goals of a build against each Kroxylicious among the peers, one for each shape."""
    return [
        replace(
            min_goal(
                f"{build} against {peer}, {shape.title}",
                "",
                samples.efficiency(shape.name, build, peer),
                MUST,
            ),
            aim=AIM,
        )
        for peer in peers
        if peer.startswith(KROXYLICIOUS)
        for shape in shapes
    ]
