"""Figures of the end-to-end tests of the pipeline, and their sections of bench/RESULTS.md (`make bench-whatif`)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.harness import FOLDER
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table, write_section

VARIABLE: Final = "SLUICE_WRITE_WHATIF_FIGURES"
"""Set by `make bench-whatif`."""
_METHOD: Final = """\
## Fidelity of what-if

Made by `make bench-whatif`: `tests/pipeline/end_to_end/test_whatif.py` runs four Sluices at the same time before a
real Kafka, with clients of the same think times: without a quota (*free*), under half of the quota (*lower*), and
under the quota by either enforcement. `sluice-pipeline whatif` then predicts the quota's run from another one."""


_USAGE: Final = """\
## Usage, counted and reported

Made by `make bench-whatif`: clients that count what they send and get, through a real Sluice before a real Kafka, and
`sluice-pipeline usage` over its usage log. Both figures are equal, or the test fails."""
_RECOMMENDED: Final = """\
## Recommended quotas, predicted and measured

Made by `make bench-whatif`: five shapes of clients are recorded without quotas for forty seconds, `sluice-pipeline
recommend` writes a file from it for either enforcement, and in a second run Sluices take the files: with the
recommended limits, and with 0.7 of them. *Predicted* is what `sluice-pipeline whatif` says of the file and the first
run; a client without a rule of its own is under the one for `<default>`."""
_ALERTS: Final = """\
## How soon a stream raises an alert

Made by `make bench-whatif`: a real Sluice before a real Kafka throttles clients that begin at different times, with
`rotate_ms` and the options of `sluice-pipeline stream` as they are by default, but a window of a minute. Measured is
the time from the end of the second that completes an alert until the alert is in its table."""
ALERT_HEADS: Final = ("source", "alerts", "median", "longest", "aim")
RECOMMENDED_HEADS: Final = (
    "client",
    "enforcement",
    "times the recommended limit",
    "limit /s",
    "predicted throttled",
    "measured throttled",
)
USAGE_HEADS: Final = ("client id", "figure", "counted by the client", "reported")


def are_wanted() -> bool:
    """Return whether this run writes its figures."""
    return bool(os.environ.get(VARIABLE))


@dataclass(slots=True)
class WhatifFigures:
    """Rows of the two tables, in the order of the tests."""

    replays: list[list[str]] = field(default_factory=list)
    rates: list[list[str]] = field(default_factory=list)

    def replayed(self, run: str, enforcement: str, found: Mapping[str, Any]) -> None:
        """Add the replay of a capture with its own quota."""
        same = found["requests"] - found["different"]
        counts = [f"{found['delayed']:,}", f"{same:,} of {found['requests']:,}"]
        self.replays.append([run, f"`{enforcement}`", *counts])

    def predicted(
        self, source: str, run: str, found: Mapping[str, Any], actual_per_s: float
    ) -> None:
        """Add a predicted rate."""
        predicted_per_s = found["accepted_per_s"]
        self.rates.append(
            [
                source,
                f"`{run}`",
                found["client_id"],
                f"{found['wanted_per_s']:.1f}",
                f"{found['limit']:g}",
                f"{predicted_per_s:.2f}",
                f"{actual_per_s:.2f}",
                f"{100 * (predicted_per_s / actual_per_s - 1):+.1f} %",
            ]
        )

    def write(self) -> None:
        """Print the tables; write them if VARIABLE is set."""
        replays = table(
            ("run", "enforcement", "delayed requests", "delays as recorded"), self.replays
        )
        heads = (
            "from",
            "enforcement",
            "client",
            "wants /s",
            "limit /s",
            "predicted /s",
            "measured /s",
            "error",
        )
        rates = table(heads, self.rates)
        print(f"\n{replays}\n\n{rates}")  # noqa: T201 - pytest -s shows it
        if are_wanted():
            load = f"{os.getloadavg()[0]:.1f} processes"
            facts = facts_line({"date": today(), "load, 1 minute": load, **describe()})
            parts = [_METHOD, "### Delays of a capture, replayed with its own quota", replays]
            parts += ["### Rates, predicted and measured", rates, facts]
            write_section(FOLDER, "whatif", "\n\n".join(parts))


def write_usage(rows: list[list[str]]) -> None:
    """Write the table of counted and reported usage, if VARIABLE is set."""
    if are_wanted():
        parts = [_USAGE, table(USAGE_HEADS, rows), facts_line({"date": today(), **describe()})]
        write_section(FOLDER, "usagecounts", "\n\n".join(parts))


def write_recommended(rows: list[list[str]]) -> None:
    """Write the table of recommended quotas, if VARIABLE is set."""
    if are_wanted():
        found = table(RECOMMENDED_HEADS, rows)
        parts = [_RECOMMENDED, found, facts_line({"date": today(), **describe()})]
        write_section(FOLDER, "recommended", "\n\n".join(parts))


def write_alerts(rows: list[list[str]]) -> None:
    """Write the table of the alerts' latencies, if VARIABLE is set."""
    if are_wanted():
        load = f"{os.getloadavg()[0]:.1f} processes"
        facts = facts_line({"date": today(), "load, 1 minute": load, **describe()})
        write_section(FOLDER, "alerts", "\n\n".join([_ALERTS, table(ALERT_HEADS, rows), facts]))
