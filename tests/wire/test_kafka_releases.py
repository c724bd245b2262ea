"""The tables of `wire` know each release of Kafka that a lock file has: they agree with its own definitions."""

import os

import pytest

from pipeline.jars import JarsUnavailableError
from tests.support.messages.golden import GOLDEN, facts
from tests.support.releases.__main__ import locked, locked_release, number
from tests.support.releases.changes import api_changes, field_changes
from tests.support.releases.definitions import Release
from tests.support.releases.facts import csv_of, facts_of, merged
from tests.support.releases.subjects import undecided
from tests.support.releases.tables import missing

RELEASES = sorted(locked(), key=number)
NEWEST = RELEASES[-1]


def release(version: str) -> Release:
    """The release, or a skipped test: its jar is downloaded once."""
    try:
        return locked_release(version)
    except JarsUnavailableError as error:
        if os.environ.get("SLUICE_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("version", RELEASES)
def test_the_facts_are_what_the_definitions_of_each_release_say(version: str) -> None:
    """No version is missing or too many, and each fact is right. An API may have another name in a later release."""
    this = release(version)
    minor = number(this.minor)
    expected = [
        fact._replace(releases=(this.minor,), name="")
        for fact in facts()
        if number(fact.releases[0]) <= minor <= number(fact.releases[-1])
    ]
    assert [fact._replace(name="") for fact in facts_of(this)] == expected


def test_no_table_lacks_a_line_for_the_newest_release() -> None:
    """APIs, error codes, layouts, addresses: `make kafka-release` has nothing to add, and no question."""
    new = release(NEWEST)
    assert [*missing(new), *undecided(new)] == []
    assert csv_of(merged(facts(), new)) == (GOLDEN / "api_facts.csv").read_text("utf-8")


def test_the_changes_between_two_releases_are_those_of_kafkas_proposals() -> None:
    """KIP-896 removed old versions in 4.0; KIP-932 made share groups; 4.4 has KIP-1242 and KIP-1319."""
    changes = [*api_changes(release("3.9.2"), release("4.3.1"))]
    assert "  0 Produce 0-11 -> 3-13" in changes
    assert "- 6 UpdateMetadata 0-8" in changes
    assert "  78 ShareFetch 0 (newest unstable) -> 1-2" in changes
    assert "+ 90 DescribeShareGroupOffsets 0-1, for broker" in changes

    assert [*api_changes(release("4.3.1"), release("4.4.0"))] == [
        "  18 ApiVersions 0-4 -> 0-5",
        "  28 TxnOffsetCommit 0-5 -> 0-6",
        "  42 DeleteGroups 0-2 -> 0-3",
        "  88 StreamsGroupHeartbeat 0 -> 0-1",
        "  89 StreamsGroupDescribe 0 -> 0-1",
        "+ 93 StreamsGroupTopologyDescriptionUpdate 0, for broker",
        "+ 94 UnregisterController 0, for broker and controller",
    ]
    fields = [*field_changes(release("4.3.1"), release("4.4.0"))]
    assert fields[:3] == [
        "ApiVersionsRequest v5",
        "    + ClusterId string (nullable)",
        "    + NodeId int32",
    ]
    assert "      Topics/Name string (topic) -> Topics/TopicId uuid (topic id)" in fields
