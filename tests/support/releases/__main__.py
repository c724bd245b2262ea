"""`make kafka-release`: what a Kafka release changed, and the lines that Sluice's tables lack for it.

    make kafka-release VERSION=4.5.0                  beside the newest earlier release that a lock file has
    make kafka-release VERSION=4.5.0 FROM=3.9.2       beside another one
    make kafka-release VERSION=4.5.0 FROM=nothing     all that it has
    make kafka-release VERSION=4.5.0 SCHEMAS=FOLDER   of a checkout of Kafka, a folder of definitions, or a zip
    make kafka-release VERSION=4.5.0 WRITE=1          and writes tests/golden/api_facts.csv

- The definitions come from the jar `kafka-clients` of the lock files in `tests/support/kafka/locks`.
- The exit code is 0 if the tables know the release, 1 if they lack a line, 2 if a field is undecided: it has an
  `entityType` that is not known, or looks like an address that nothing rewrites.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.jars import JarsUnavailableError, provide_jars, read_lock
from tests.support.kafka.kafka_jars import CACHE
from tests.support.messages.golden import GOLDEN, Fact, facts
from tests.support.releases.changes import api_changes, error_changes, field_changes
from tests.support.releases.definitions import NOTHING, DefinitionError, Release, read_release
from tests.support.releases.facts import csv_of, merged, newest_of, number
from tests.support.releases.rights import unjudged
from tests.support.releases.subjects import undecided
from tests.support.releases.tables import missing

LOCKS = Path(__file__).parents[1] / "kafka" / "locks"
CLIENTS = "org.apache.kafka:kafka-clients:"
COMPLETE, LACKING, UNDECIDED, UNREADABLE = 0, 1, 2, 3


def locked() -> dict[str, str]:
    """Return the line of the jar `kafka-clients` by version, of each version that a lock file has."""
    lines = (
        line
        for lock in sorted(LOCKS.glob("*.lock"))
        for line in lock.read_text("utf-8").splitlines()
        if line.startswith(CLIENTS)
    )
    return {line.removeprefix(CLIENTS).partition(" ")[0]: line for line in lines}


def locked_release(version: str) -> Release:
    """Return a release that a lock file has. Raises DefinitionError if none has it, and JarsUnavailableError."""
    lines = locked()
    if version not in lines:
        known = ", ".join(sorted(lines, key=number))
        raise DefinitionError(
            f"no lock file has {CLIENTS}{version}, only {known}: make kafka-lock VERSION={version}"
        )
    (jar,) = read_lock(lines[version])
    for place in CACHE.glob(f"*/{jar.file_name}"):  # a broker of the tests has it, too
        if hashlib.sha256(place.read_bytes()).hexdigest() == jar.sha256:
            return read_release(version, place)
    (place,) = provide_jars(lines[version], CACHE / f"clients-{version}")
    return read_release(version, place)


def newest_before(version: str) -> str:
    """Return the newest release before this one that a lock file has. Raises DefinitionError if there is none."""
    earlier = [each for each in locked() if number(each)[:2] < number(version)[:2]]
    if not earlier:
        raise DefinitionError(f"no lock file has a release before {version}")
    return max(earlier, key=number)


def report(old: Release, new: Release, known: Sequence[Fact]) -> tuple[list[str], int]:
    """Return what the command prints, and its exit code. `known` are the facts that the project has."""
    open_questions = [*undecided(new), *unjudged(new)]
    newest = newest_of(known)
    is_newest = number(new.minor) >= number(newest)
    lines = list(missing(new, known)) if is_newest else []
    text = [
        f"Kafka {new.version} beside {old.version}",
        *_section("APIs", api_changes(old, new)),
        *_section("Fields", field_changes(old, new)),
        *_section("Error codes", error_changes(old, new)),
    ]
    by_file: dict[str, list[str]] = {}
    for each in lines:
        present = [f"- {each.instead_of}"] if each.instead_of else []
        added = [f"+ {line}" for line in each.text.splitlines()]
        by_file.setdefault(each.file, []).extend((*present, *added))
    for file, changes in by_file.items():
        text += _section(file, changes)
    text += _section("Undecided", (f"{each.path}\n      {each.why}" for each in open_questions))
    if not is_newest:
        text += [
            "",
            f"The tables are those of Kafka {newest}: they are compared with newer ones only.",
        ]
    verdict = (
        f"{len(lines)} lines or choices are missing, {len(open_questions)} fields are undecided."
    )
    code = UNDECIDED if open_questions else LACKING if lines else COMPLETE
    return [*text, "", verdict], code


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", title, *(f"  {line}" for line in found))


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="make kafka-release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--from", dest="earlier", default="")
    parser.add_argument("--schemas", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        earlier = asked.earlier or newest_before(asked.version)
        old = NOTHING if earlier == NOTHING.version else locked_release(earlier)
        place = asked.schemas
        new = read_release(asked.version, place) if place else locked_release(asked.version)
        text, code = report(old, new, facts())
        if asked.write:
            (GOLDEN / "api_facts.csv").write_text(csv_of(merged(facts(), new, old.minor)), "utf-8")
    except (DefinitionError, JarsUnavailableError) as error:
        print(f"kafka-release: {error}", file=sys.stderr)  # noqa: T201 - a program for people
        return UNREADABLE
    print("\n".join(text))  # noqa: T201 - a program for people
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
