"""The cases of `bench.clients`, and its section of RESULTS.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.figures import Sample, Samples
from bench.goals import Goal, goal_table, max_goal, min_goal
from bench.harness.figures import Spread
from bench.harness.markdown import columns, facts_line
from bench.variants import COMPILED, DIRECT, HAPROXY

METHOD: Final = """\
Made by `make bench-clients`. Kafka's own performance tools are the clients, before a real Kafka of one broker; the
consumer reads what a producer sends past the proxies, or at full speed a topic that is full. CPU is that of the proxy
alone, for each record. The ratio is that of HAProxy's CPU in the same round: below 1 the variant needs less. The goals
are those of the [compiled build](../docs/extend/compiled.md)."""


@dataclass(frozen=True, slots=True)
class Case:
    """Records of one size at a fixed rate (0: at full speed), produced or consumed through the proxy.

    Of the compiled build, `goal` is the most CPU, times HAProxy's; `speed_goal` the least speed, times that without a
    proxy.
    """

    name: str
    title: str
    record_bytes: int
    rate: int
    consumes: bool = False
    goal: float | None = None
    speed_goal: float | None = None


CASES: Final = (
    Case("produce-1k", "produce 1 KB at 5,000/s", 1000, 5000, goal=1.7),
    Case("produce-100", "produce 100 B at 20,000/s", 100, 20_000, goal=2.0),
    Case("consume-1k", "consume 1 KB at 5,000/s", 1000, 5000, consumes=True),
    Case("consume-100", "consume 100 B at 20,000/s", 100, 20_000, consumes=True),
    Case(
        "consume", "consume 1 KB at full speed", 1000, 0, consumes=True, goal=1.2, speed_goal=0.95
    ),
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

    def speed(row: tuple[Case, str]) -> str:
        return "" if row[0].rate or row[1] == DIRECT else _text(_speed(samples, *row), 2)

    def times(row: tuple[Case, str]) -> str:
        return "" if row[1] in {HAPROXY, DIRECT} else _text(_ratio(samples, *row), 2)

    cpu = of(lambda each: each.cpu_us, 2)
    parts = [
        "## Real clients at fixed rates",
        METHOD,
        goal_table(goals(samples, cases)),
        columns(
            [(case, name) for case in cases for name in names if not case.rate or name != DIRECT],
            [
                ("", lambda row: row[0].title),
                ("", lambda row: row[1]),
                ("CPU µs/record", lambda row: "" if row[1] == DIRECT else cpu(row)),
                *([("times HAProxy's", times)] if HAPROXY in names else []),
                ("records/s", of(lambda each: each.requests_per_second, 0)),
                ("times direct's", speed),
            ],
        ),
        facts_line(facts),
    ]
    return "\n\n".join(parts)


def goals(samples: Samples, cases: list[Case]) -> list[Goal]:
    """Return the goals of each case, for the compiled build."""
    made = []
    for case in cases:
        if case.goal is not None:
            what = f"CPU of a record, {case.title}, times HAProxy's"
            ratio = _ratio(samples, case, COMPILED)
            made.append(max_goal(what, "x", ratio, case.goal))
        if case.speed_goal is not None:
            what = f"records/s, {case.title}, times those without a proxy"
            made.append(min_goal(what, "x", _speed(samples, case, COMPILED), case.speed_goal))
    return made


def _ratio(samples: Samples, case: Case, name: str) -> Spread | None:
    """Return the CPU of a variant divided by HAProxy's, computed in each round; None without both."""
    return samples.between(
        case.name,
        name,
        HAPROXY,
        lambda ours, theirs: ours.cpu_us / theirs.cpu_us if theirs.cpu_us else 0.0,
    )


def _speed(samples: Samples, case: Case, name: str) -> Spread | None:
    """Return the records per second of a variant divided by those without a proxy, computed in each round."""
    return samples.between(
        case.name,
        name,
        DIRECT,
        lambda ours, theirs: ours.requests_per_second / theirs.requests_per_second,
    )


def _text(found: Spread | None, digits: int) -> str:
    return "" if found is None else found.text(digits)
