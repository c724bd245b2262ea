"""The facts of `tests/golden/api_facts.csv`, made from the definitions of releases.

- A line is an API, version and direction. It says what the newest release in which the version is valid says, and
  which releases have it: a release that changes nothing of a version leaves its line as it is.
- `make kafka-release VERSION=... WRITE=1` adds a release to the file. No line is written by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.messages.golden import Fact
from tests.support.releases.definitions import KINDS
from tests.support.releases.subjects import address_paths, throttle_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.releases.definitions import Message, Release

COLUMNS = (
    "api_key,name,kind,version,releases,broker_listener,flexible,header_version,"
    "throttle,broker_addresses,own_wait"
)
_OWN_WAITS = {"timeoutms", "maxwaitms"}


def facts_of(release: Release) -> list[Fact]:
    """Return what one release says of each version that it accepts, in the order of the file."""
    return [
        _fact(release, release.messages[request.key, kind], version)
        for request in release.requests()
        for version in request.versions
        for kind in KINDS
    ]


def merged(old: Iterable[Fact], release: Release, before: str = "") -> list[Fact]:
    """Return the facts of earlier releases with those of a newer one, or of the newest of them again, added.

    A version that this release has no more was valid up to `before`, by default the newest that the facts name.
    """
    old, new = list(old), facts_of(release)
    before = before or newest_of(old)
    found = {_place(fact): fact for fact in old}
    now = {_place(fact): fact for fact in new}
    for place, fact in found.items():
        if place not in now and fact.releases.endswith("+"):
            first = fact.releases[:-1]
            ended = first if first == before else f"{first}..{before}"
            found[place] = fact._replace(releases=ended)
    for place, fact in now.items():
        first = found[place].releases if place in found else f"{release.minor}+"
        found[place] = fact._replace(releases=first)
    return [found[place] for place in sorted(found)]


def _place(fact: Fact) -> tuple[int, int, bool]:
    """Return what a fact is about, in the order of the file."""
    return fact.api_key, fact.version, fact.kind == "response"


def number(version: str) -> tuple[int, ...]:
    """Return a version as numbers, to compare with."""
    return tuple(int(part) for part in version.split("."))


def last_of(fact: Fact) -> str:
    """Return the last release that had the version of a fact; empty if the newest one has it."""
    return "" if fact.releases.endswith("+") else fact.releases.rpartition("..")[2]


def is_in(fact: Fact, minor: str) -> bool:
    """Return whether a release, as `4.4`, has the version of a fact."""
    first = fact.releases.removesuffix("+").partition("..")[0]
    after = number(first) <= number(minor)
    last = last_of(fact)
    return after and (not last or number(minor) <= number(last))


def names_of(facts: Iterable[Fact]) -> list[str]:
    """Return the releases that the facts name, the oldest first: those that brought a version, or had it last."""
    named = {name for fact in facts for name in fact.releases.removesuffix("+").split("..")}
    return sorted(named, key=number)


def newest_of(facts: Iterable[Fact]) -> str:
    """Return the newest release that the facts name."""
    return names_of(facts)[-1]


def csv_of(facts: Iterable[Fact]) -> str:
    """Return the text of the file."""
    return "".join(f"{line}\n" for line in (COLUMNS, *map(row, facts)))


def row(fact: Fact) -> str:
    """Return a line of the file."""
    cells = (
        fact.api_key,
        fact.name,
        fact.kind,
        fact.version,
        fact.releases,
        "yes" if fact.broker_listener else "no",
        "yes" if fact.flexible else "no",
        fact.header_version,
        fact.throttle,
        fact.broker_addresses,
        fact.own_wait,
    )
    return ",".join(map(str, cells))


def _fact(release: Release, message: Message, version: int) -> Fact:
    request = release.messages[message.key, "request"]
    flexible = version in message.flexible
    return Fact(
        api_key=message.key,
        name=message.name,
        kind=message.kind,
        version=version,
        releases=f"{release.minor}+",
        broker_listener="broker" in request.listeners,
        flexible=flexible,
        header_version=_header_version(message, version, flexible=flexible),
        throttle=throttle_place(message, version) if message.kind == "response" else "",
        broker_addresses=" ".join(address_paths(message, version)),
        own_wait=next(_own_waits(message, version), "") if message.kind == "request" else "",
    )


def _header_version(message: Message, version: int, *, flexible: bool) -> int:
    """Return the version of the header, with the two exceptions that `wire.apis` names."""
    if message.kind == "response":
        return int(flexible and message.name != "ApiVersions")
    return 0 if message.name == "ControlledShutdown" and version == 0 else 1 + flexible


def _own_waits(message: Message, version: int) -> Iterator[str]:
    return (
        field.name
        for field in message.fields
        if version in field.versions and field.name.lower() in _OWN_WAITS
    )
