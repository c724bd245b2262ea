"""The tables of `wire` know each release of Kafka that a lock file has: they agree with its own definitions."""

import os

import pytest

from pipeline.jars import JarsUnavailableError
from tests.support.messages.golden import GOLDEN, Fact, facts
from tests.support.releases.__main__ import COMPLETE, locked, locked_release, main
from tests.support.releases.changes import api_changes, field_changes
from tests.support.releases.definitions import NOTHING, Release
from tests.support.releases.facts import csv_of, facts_of, is_in, merged, newest_of, number
from tests.support.releases.rights import NAMES_NOTHING, READ, unjudged
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


def layout(fact: Fact) -> Fact:
    """A fact without the names of APIs and fields, which a later release may change."""
    waits, addresses = bool(fact.own_wait), bool(fact.broker_addresses)
    return fact._replace(releases="", name="", own_wait=waits, broker_addresses=addresses)


@pytest.mark.parametrize("version", RELEASES)
def test_the_facts_are_what_the_definitions_of_each_release_say(version: str) -> None:
    """No version is missing or too many, and each fact is right."""
    this = release(version)
    expected = [layout(fact) for fact in facts() if is_in(fact, this.minor)]
    assert [*map(layout, facts_of(this))] == expected


def test_no_table_lacks_a_line_for_the_newest_release() -> None:
    """APIs, error codes, layouts, rights, addresses: `make kafka-release` has nothing to add, and no question."""
    new = release(NEWEST)
    if number(new.minor) < number(newest_of(facts())):
        pytest.skip("the tables know a release that no lock file has yet")
    assert [*missing(new, facts()), *undecided(new), *unjudged(new)] == []
    assert csv_of(merged(facts(), new)) == (GOLDEN / "api_facts.csv").read_text("utf-8")


def test_no_exception_from_the_rights_is_about_a_field_that_is_gone() -> None:
    """A field of the same name that comes later is looked at again."""
    new = release(NEWEST)
    there = {f"{each.name}/{path}" for each in new.requests() for path, _ in each.walk()}
    assert {*READ, *(path for paths in NAMES_NOTHING.values() for path in paths)} <= there


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
    assert [*field_changes(release("4.3.1"), release("4.4.0"))][:3] == [
        "ApiVersionsRequest v5",
        "    + ClusterId string (nullable)",
        "    + NodeId int32",
    ]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("HeartbeatRequest v0", "+ GroupId string (group)"),
        ("ProduceResponse v10", "+ NodeEndpoints []NodeEndpoint (address; tag 0, default empty)"),
        ("FetchResponse v16", "+ NodeEndpoints []NodeEndpoint (address; tag 0, default empty)"),
        (
            "TxnOffsetCommitRequest v6",
            "Topics/Name string (topic) -> Topics/TopicId uuid (topic id)",
        ),
    ],
)
def test_beside_nothing_all_that_a_release_has_is_new(message: str, line: str) -> None:
    """KIP-951 added lists of endpoints as tagged fields, and KIP-1319 ids in place of names."""
    fields = [each.strip() for each in field_changes(NOTHING, release(NEWEST))]
    of_message = fields[fields.index(message) :]
    assert line in of_message[:12]


def test_the_command_succeeds_if_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    """Its last line counts what is missing."""
    release(NEWEST)
    assert main([NEWEST, "--from", "nothing"]) == COMPLETE
    assert capsys.readouterr().out.endswith(
        "0 lines or choices are missing, 0 fields are undecided.\n"
    )
