"""What `bench.clients` has found, its goals, and its section of RESULTS.md."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bench.client_cases import Case
from bench.figures import Sample, Samples
from bench.goals import Goal, goal_table
from bench.harness.figures import Spread
from bench.harness.markdown import columns, facts_line
from bench.system_calls import Calls
from bench.variants import (
    COMPILED,
    COMPILED_FEATURES,
    DIRECT,
    HAPROXY,
    KROXYLICIOUS,
    SLUICE,
    Variant,
)

METHOD: Final = """\
Made by `make bench-clients`. The clients are Kafka's own performance tools and librdkafka, before a real Kafka of one
broker. Nothing is pinned: clients, broker and proxy share the cores and their caches. At a rate, consumers read what a
producer sends past the proxies; at full speed they read a topic that is full. CPU is that of the proxy alone, for each
record. Ratios are taken inside each round: CPU by HAProxy's (below 1 the variant needs less), records per second by
those without a proxy. Latency is the producer's, from the call to the acknowledgement; at full speed most of it is the
producer's own queue. The goals are those of the [compiled build](../docs/extend/compiled.md), unless they name
another; *the worst case* is the one with the worst median."""
OVERVIEW: Final = "CPU of a record, by HAProxy's in the same round (medians):"
CALLS: Final = """\
System calls of the proxy for each thousand sends, in a further run of each case. A send fails if the kernel takes no
byte: there back-pressure begins, and the masks of the poll set change (`epoll_ctl`). Both should be near 0; a few
changes are Trio's, when it waits for the event loop."""


@dataclass(frozen=True, slots=True)
class Found:
    """The samples of all rounds, and the system calls by case and variant."""

    cases: list[Case]
    variants: list[Variant]
    samples: Samples = field(default_factory=Samples)
    calls: dict[tuple[str, str], Calls] = field(default_factory=dict)

    def cpu_ratio(self, case: Case, name: str, yardstick: str = HAPROXY) -> Spread | None:
        """Return the CPU of a variant divided by the yardstick's, computed in each round; None without both."""
        return self.samples.between(
            case.name,
            name,
            yardstick,
            lambda ours, theirs: ours.cpu_us / theirs.cpu_us if theirs.cpu_us else 0.0,
        )

    def speed_ratio(self, case: Case, name: str, yardstick: str = DIRECT) -> Spread | None:
        """Return the records per second of a variant divided by the yardstick's, computed in each round."""
        return self.samples.between(
            case.name,
            name,
            yardstick,
            lambda ours, theirs: ours.requests_per_second / theirs.requests_per_second,
        )


Row = tuple[Case, str]
"""A case and the name of a variant."""


def section(found: Found, facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""

    def of(what: Callable[[Sample], float], digits: int) -> Callable[[Row], str]:
        return lambda row: _text(found.samples.of(row[0].name, row[1], what), digits)

    def but(cell: Callable[[Row], str], *names: str) -> Callable[[Row], str]:
        return lambda row: "" if row[1] in names else cell(row)

    def latency(what: Callable[[Sample], float]) -> Callable[[Row], str]:
        shown = of(lambda each: what(each) / 1000, 1)
        return lambda row: shown(row) if row[0].has_latency else ""

    rows = [(case, each.name) for case in found.cases for each in found.variants]
    parts = [
        "## Real clients",
        METHOD,
        goal_table(goals(found)),
        OVERVIEW,
        _overview(found),
        "### Each case",
        columns(
            rows,
            [
                ("", lambda row: row[0].title),
                ("", lambda row: row[1]),
                ("CPU µs/record", but(of(lambda each: each.cpu_us, 2), DIRECT)),
                ("by HAProxy's", but(lambda row: _text(found.cpu_ratio(*row), 2), DIRECT, HAPROXY)),
                ("records/s", of(lambda each: each.requests_per_second, 0)),
                ("by direct's", but(lambda row: _text(found.speed_ratio(*row), 2), DIRECT)),
                ("p50 ms", latency(lambda each: each.p50_us)),
                ("p99 ms", latency(lambda each: each.p99_us)),
            ],
        ),
        *_calls(found),
        facts_line(facts),
    ]
    return "\n\n".join(parts)


def _overview(found: Found) -> str:
    """Return the table of CPU ratios: a row for each case, a column for each proxy."""
    names = [each.name for each in found.variants if each.name not in {DIRECT, HAPROXY}]

    def ratio(name: str) -> Callable[[Case], str]:
        return lambda case: _median(found.cpu_ratio(case, name))

    cpu = "HAProxy, µs/record"
    return columns(
        found.cases,
        [
            ("", lambda case: case.title),
            (cpu, lambda case: _median(found.samples.of(case.name, HAPROXY, lambda s: s.cpu_us))),
            *((name, ratio(name)) for name in names),
        ],
    )


def _calls(found: Found) -> Iterable[str]:
    """Yield the table of system calls, if they were counted."""
    titles = {case.name: case.title for case in found.cases}

    def of(what: Callable[[Calls], int]) -> Callable[[tuple[tuple[str, str], Calls]], str]:
        return lambda row: f"{row[1].per_1000_sends(what(row[1])):,.0f}"

    if found.calls:
        yield "### System calls"
        yield CALLS
        yield columns(
            found.calls.items(),
            [
                ("", lambda row: titles[row[0][0]]),
                ("", lambda row: row[0][1]),
                ("sends", lambda row: f"{row[1].sends:,}"),
                ("failed", of(lambda calls: calls.failed_sends)),
                ("masks changed", of(lambda calls: calls.mask_changes)),
                ("receives", of(lambda calls: calls.receives)),
                ("waits", of(lambda calls: calls.waits)),
            ],
        )


def goals(found: Found) -> list[Goal]:
    """Return the goals: CPU by HAProxy's in each case, and the worst case of each other comparison."""
    made = [
        Goal(
            f"CPU by HAProxy's, {case.title}",
            "",
            found.cpu_ratio(case, COMPILED),
            case.must,
            at_least=False,
            aim=case.aim,
        )
        for case in found.cases
    ]
    fast = [case for case in found.cases if not case.rate]
    peers = [each.name for each in found.variants if each.name.startswith(KROXYLICIOUS)]

    def worst(
        what: str,
        ratios: Iterable[tuple[Case, Spread | None]],
        must: float,
        aim: float,
        *,
        at_least: bool = False,
    ) -> Goal:
        known = [(ratio, case) for case, ratio in ratios if ratio is not None]
        pick = min if at_least else max
        ratio, case = pick(known, key=lambda each: each[0].median, default=(None, None))
        where = "" if case is None else f" ({case.title})"
        return Goal(f"{what}, the worst case{where}", "", ratio, must, at_least=at_least, aim=aim)

    for peer in peers or [KROXYLICIOUS]:
        ratios = ((case, found.cpu_ratio(case, COMPILED, peer)) for case in found.cases)
        made.append(worst(f"CPU by that of {peer}", ratios, 0.7, 0.5))
    added = ((case, found.cpu_ratio(case, COMPILED_FEATURES, COMPILED)) for case in found.cases)
    made.append(
        worst(
            "CPU with a quota, sampled traces and usage by topic, by that without",
            added,
            1.05,
            1.02,
        )
    )
    speeds = ((case, found.speed_ratio(case, COMPILED, HAPROXY)) for case in fast)
    made.append(worst("records/s by HAProxy's at full speed", speeds, 0.97, 1.0, at_least=True))
    source = ((case, found.cpu_ratio(case, SLUICE)) for case in fast)
    made.append(worst("the source: CPU by HAProxy's at full speed", source, 2.8, 2.0))
    return made


def _median(found: Spread | None) -> str:
    return "" if found is None else f"{found.median:.2f}"


def _text(found: Spread | None, digits: int) -> str:
    return "" if found is None else found.text(digits)
