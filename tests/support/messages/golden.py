"""The golden data, read once: the cases, and the facts per API.

Everything lies in `tests/golden/`; its README says where it comes from.
"""

import csv
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[2] / "golden"


class Fact(NamedTuple):
    """One line of `api_facts.csv`: an API, version and direction as Kafka's definitions say."""

    api_key: int
    name: str
    kind: str
    version: int
    releases: str
    """In which the version is valid: `3.9+` from 3.9 to the newest one, `3.9..4.0`, or `3.9` alone."""
    broker_listener: bool
    flexible: bool
    header_version: int
    throttle: str
    """Offset from the body's start, `last`, or empty."""
    broker_addresses: str
    own_wait: str
    """The request's field that says how long the broker may hold the reply."""


@cache
def cases(area: str) -> dict[str, dict[str, Any]]:
    """Case id to data, for the cases of `area` that have some, in whichever file."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(GOLDEN.glob("*.toml")):
        found.update(tomllib.loads(path.read_text(encoding="utf-8")).get(area, {}))
    return found


@cache
def facts() -> tuple[Fact, ...]:
    """Every API, version and kind that Kafka 3.9 to 4.4 knows."""
    return tuple(
        Fact(
            api_key=int(row["api_key"]),
            name=row["name"],
            kind=row["kind"],
            version=int(row["version"]),
            releases=row["releases"],
            broker_listener=row["broker_listener"] == "yes",
            flexible=row["flexible"] == "yes",
            header_version=int(row["header_version"]),
            throttle=row["throttle"],
            broker_addresses=row["broker_addresses"],
            own_wait=row["own_wait"],
        )
        for row in csv.DictReader((GOLDEN / "api_facts.csv").read_text("utf-8").splitlines())
    )
