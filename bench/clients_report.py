"""The cases of `bench.clients`, and its section of RESULTS.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.figures import Sample, Samples
from bench.goals import Goal, goal_table, max_goal
from bench.harness.figures import Spread
from bench.harness.markdown import columns, facts_table
from bench.variants import HAPROXY, SLUICE

BASE: Final = "base"
METHOD: Final = """\
Made by `make bench-clients`. Kafka's own performance tools are the clients, before a real Kafka of one broker; the
consumer reads what a producer sends past the proxies. CPU is that of the proxy alone, for each record. The ratio is
that of HAProxy's CPU in the same round: below 1 the variant needs less."""


@dataclass(frozen=True, slots=True)
class Case:
    """Records of one size at a fixed rate, produced or consumed through the proxy; `goal` times HAProxy's CPU."""

    name: str
    title: str
    record_bytes: int
    rate: int
    consumes: bool = False
    goal: float | None = None


CASES: Final = (
    Case("produce-1k", "produce 1 KB at 5,000/s", 1000, 5000, goal=1.7),
    Case("produce-100", "produce 100 B at 20,000/s", 100, 20_000, goal=2.0),
    Case("consume-1k", "consume 1 KB at 5,000/s", 1000, 5000, consumes=True),
    Case("consume-100", "consume 100 B at 20,000/s", 100, 20_000, consumes=True),
)


def choose(names: str) -> list[Case]:
    """Return the cases named in a comma-separated list; all if it is empty.

    Raises:
        ValueError: a name is unknown.
    """
    wanted = [name for name in names.split(",") if name]
    known = {case.name for case in CASES}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"unknown case {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return [case for case in CASES if not wanted or case.name in wanted]


def section(samples: Samples, cases: list[Case], names: list[str], facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md; `names` are those of the variants."""

    def of(what: Callable[[Sample], float], digits: int) -> Callable[[tuple[Case, str]], str]:
        return lambda row: _text(samples.of(row[0].name, row[1], what), digits)

    def times(yardstick: str) -> Callable[[tuple[Case, str]], str]:
        return lambda row: "" if row[1] == yardstick else _text(_ratio(samples, *row, yardstick), 2)

    yardsticks = {HAPROXY: "times HAProxy's", BASE: "times the base's"}
    parts = [
        "## Real clients at fixed rates",
        METHOD,
        goal_table(goals(samples, cases)),
        columns(
            [(case, name) for case in cases for name in names],
            [
                ("", lambda row: row[0].title),
                ("", lambda row: row[1]),
                ("CPU µs/record", of(lambda each: each.cpu_us, 2)),
                *((head, times(name)) for name, head in yardsticks.items() if name in names),
                ("records/s", of(lambda each: each.requests_per_second, 0)),
            ],
        ),
        facts_table(facts),
    ]
    return "\n\n".join(parts)


def goals(samples: Samples, cases: list[Case]) -> list[Goal]:
    """Return a goal for each case that has one."""
    return [
        max_goal(
            f"CPU of a record, {case.title}, times HAProxy's",
            "x",
            _ratio(samples, case, SLUICE, HAPROXY),
            case.goal,
        )
        for case in cases
        if case.goal is not None
    ]


def _ratio(samples: Samples, case: Case, name: str, yardstick: str) -> Spread | None:
    """Return the CPU of a variant divided by the yardstick's, computed in each round; None without both."""
    return samples.between(
        case.name, name, yardstick, lambda ours, theirs: ours.cpu_us / theirs.cpu_us
    )


def _text(found: Spread | None, digits: int) -> str:
    return "" if found is None else found.text(digits)
