"""`make kafka-release` names each thing that a release brings, and fails for what no table knows."""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.house.house import ROOT
from tests.support.kafka.jar_lock import head_for, locked, newest_lock
from tests.support.messages.golden import facts
from tests.support.releases.__main__ import COMPLETE, LACKING, UNDECIDED, UNREADABLE, main, report
from tests.support.releases.definitions import (
    FIXED_BYTES,
    DefinitionError,
    Release,
    range_of,
    read_release,
)
from tests.support.releases.facts import merged, row
from tests.support.releases.java_errors import read_errors
from tests.support.releases.newer import newer_lines
from tests.support.releases.rights import unjudged
from tests.support.releases.subjects import undecided
from tests.support.releases.tables import BY_HAND, Missing, missing
from wire import codec, newer_messages
from wire.api_keys import ApiKey
from wire.errors import RETRIABLE, ErrorCode
from wire.schema import check, make_message, shape_of

Fields = list[dict[str, Any]]
OLD, NEW = "98.0.0", "99.0.0"
KEY, CODE = max(ApiKey) + 1, max(ErrorCode) + 1
"""Of an API and an error that Kafka has not."""
LOST = "ShineTopicsResponse v0+: ThrottleTimeMs"
KNOWN = [fact for fact in facts() if fact.api_key in {12, 25, 60}]
"""The facts about the APIs of `Definitions`."""


def field(name: str, type_: str, versions: str = "0+", **more: object) -> dict[str, Any]:
    """A field of a definition."""
    return {"name": name, "type": type_, "versions": versions, **more}


THROTTLE = field("ThrottleTimeMs", "int32")
ERROR = field("ErrorCode", "int16")
BROKER = [
    field("BrokerId", "int32", entityType="brokerId"),
    field("Host", "string"),
    field("Port", "int32"),
]


class Definitions:
    """A folder of definitions: three APIs as Kafka 4.4 has them, and all of its error codes."""

    def __init__(self) -> None:
        self.errors = {code.name: (int(code), code in RETRIABLE) for code in ErrorCode}
        self.messages: dict[str, dict[str, Any]] = {}
        self.add(
            *(12, "Heartbeat", "0-4", "4+"),
            [
                field("GroupId", "string", entityType="groupId"),
                field("GenerationId", "int32"),
                field("MemberId", "string"),
                field("GroupInstanceId", "string", "3+", nullableVersions="3+"),
            ],
            [field("ThrottleTimeMs", "int32", "1+"), ERROR],
        )
        self.add(
            *(25, "AddOffsetsToTxn", "0-4", "3+"),
            [
                field("TransactionalId", "string", entityType="transactionalId"),
                field("ProducerId", "int64", entityType="producerId"),
                field("ProducerEpoch", "int16"),
                field("GroupId", "string", entityType="groupId"),
            ],
            [THROTTLE, ERROR],
        )
        self.add(
            *(60, "DescribeCluster", "0-2", "0+"),
            [field("IncludeClusterAuthorizedOperations", "bool")],
            [
                THROTTLE,
                ERROR,
                field("ClusterId", "string"),
                field("Brokers", "[]Broker", fields=BROKER),
            ],
        )

    def add(
        self, key: int, name: str, versions: str, flexible: str, request: Fields, response: Fields
    ) -> None:
        """Add an API that clients may use."""
        both = {"apiKey": key, "validVersions": versions, "flexibleVersions": flexible}
        asked = {**both, "type": "request", "listeners": ["broker"], "fields": request}
        self.messages[f"{name}Request"] = asked
        self.messages[f"{name}Response"] = {**both, "type": "response", "fields": response}

    def written(self, version: str, folder: Path) -> Release:
        """The release of these definitions, read from files."""
        folder.mkdir()
        for name, said in self.messages.items():
            text = json.dumps({**said, "name": name}, indent=1)
            text = text.replace("[", '[ // a comment with a " in it\n', 1)
            (folder / f"{name}.json").write_text(f"// A licence: http://example.com\n{text}")
        constants = ",\n".join(
            f'    {name}({code}, "of, kind",\n        {"Again" if again else "Never"}Exception::new)'
            for name, (code, again) in self.errors.items()
        )
        (folder / "Errors.java").write_text(f"public enum Errors {{\n{constants};\n")
        (folder / "AgainException.java").write_text(
            "public class AgainException extends RetriableException {"
        )
        return read_release(version, folder)


def next_release() -> Definitions:
    """The same with one of each change: an API and a version more, one less, a renamed address, a new list of
    endpoints, a new error and a new kind of entity.
    """
    made = Definitions()
    made.errors["SHINE_LOST"] = (CODE, True)
    made.messages["HeartbeatRequest"]["validVersions"] = "1-4"
    made.messages["HeartbeatResponse"]["validVersions"] = "1-4"
    renamed = [BROKER[0], field("HostName", "string"), BROKER[2]]
    made.messages["DescribeClusterResponse"]["fields"][-1]["fields"] = renamed
    endpoints = field("LeaderEndpoints", "[]Node", "3+", taggedVersions="3+", tag=0, fields=BROKER)
    made.messages["AddOffsetsToTxnResponse"]["fields"].append(endpoints)
    made.add(
        *(KEY, "ShineTopics", "0-1", "0+"),
        [
            field("GroupId", "string", entityType="groupId"),
            field("Topics", "[]Topic", nullableVersions="0+", fields=[
                field("TopicId", "uuid"),
                field("Partitions", "[]int32"),
                field("Shine", "string", entityType="shineId"),
            ]),
            field("TimeoutMs", "int32", "1+"),
            field("AlsoTopics", "[]string", taggedVersions="0+", tag=0, entityType="topicName"),
        ],
        [THROTTLE, field("Results", "[]Result", fields=[field("TopicId", "uuid"), ERROR])],
    )  # fmt: skip
    topic = field("Name", "string", entityType="topicName")
    listed = [THROTTLE, ERROR, field("Topics", "[]ShineListing", fields=[topic])]
    made.add(KEY + 1, "ListShine", "0", "0+", [], listed)
    return made


@pytest.fixture
def said(tmp_path: Path) -> str:
    """What the command says of the next release."""
    old = Definitions().written(OLD, tmp_path / "old")
    text, code = report(old, next_release().written(NEW, tmp_path / "new"), KNOWN)
    assert code == UNDECIDED
    return "\n".join(text)


@pytest.mark.parametrize(
    "lines",
    [
        (f"+ {KEY} ShineTopics 0-1, for broker",),
        ("ShineTopicsRequest v0", "+ GroupId string (group)", "+ Topics/TopicId uuid (topic id)"),
        ("ShineTopicsRequest v1", "+ TimeoutMs int32 (timeout)"),
        ("12 Heartbeat 0-4 -> 1-4",),
        ("Brokers/Host string (address) -> Brokers/HostName string (address)",),
        ("+ LeaderEndpoints []Node (address; tag 0, default empty)",),
        (f"+ {CODE} SHINE_LOST, retriable",),
        ("wire/api_keys.py", f"+     SHINE_TOPICS = {KEY}"),
        ("wire/errors.py", f"+     SHINE_LOST = {CODE}", "+         ErrorCode.SHINE_LOST,"),
        ('+ _api(12, "Heartbeat", "0-4", DATA, removed="0 in 99.0", flexible=4, throttle="1+")',),
        (f'+ _api({KEY}, "ShineTopics", "0-1", DATA, flexible=0, throttle="0+", waits="1+")',),
        ('+ _api(25, "AddOffsetsToTxn", "0-4", DATA, flexible=3, throttle="0+", addresses="3+")',),
        ("wire/request_layouts.py", "+ ShineTopics g {i [p] s}? 4@1+"),
        ("wire/newer_messages.py", f"+ {KEY} 1 request", "timeout:timedelta_i32"),
        ("wire/replies.py", "+ ShineTopics topics > results"),
        ("tests/wire/test_request_layouts.py", "+ ApiKey.LIST_SHINE, in NAMELESS"),
        ("wire/listing_cuts.py", "+ ListShine 4 c {t}"),
        ("tests/wire/test_listing_cuts.py", '"ShineListing", in NAMED'),
        ("wire/authorization.py", "+ ShineTopics 0-1, and the rights that KafkaApis demands"),
        ("tests/golden/api_facts.csv", "lines, by WRITE=1"),
        ("ShineTopicsRequest v0+: Topics/Shine", "entityType shineId"),
        ("DescribeClusterResponse v0+: Brokers/HostName", "looks like an address"),
        ("DescribeClusterResponse: Brokers/Host", "this address is gone"),
        ("AddOffsetsToTxnResponse v3+: LeaderEndpoints", "looks like an address"),
        ("AddOffsetsToTxnResponse v3+: LeaderEndpoints/Host", "looks like an address"),
        ("ShineTopicsRequest v0+: AlsoTopics", "a name in a tagged field"),
        ("7 fields are undecided",),
    ],
)
def test_each_change_is_named(said: str, lines: Iterable[str]) -> None:
    """In the order in which a reader needs it."""
    at = 0
    for line in lines:
        at = said.find(line, at)
        assert at >= 0, f"{line} is not in:\n{said}"


def test_a_release_that_the_tables_know_needs_no_line(tmp_path: Path) -> None:
    """Then the command succeeds."""
    same = Definitions().written(OLD, tmp_path / "same")
    text, code = report(same, same, KNOWN)
    assert code == COMPLETE, text


def test_lines_alone_are_no_question(tmp_path: Path) -> None:
    """The exit code tells a missing line from a field that no table knows."""
    made = Definitions()
    made.errors["SHINE_LOST"] = (CODE, False)
    new = made.written(NEW, tmp_path / "new")
    assert report(new, new, KNOWN)[1] == LACKING


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ([ERROR, THROTTLE], []),
        ([field("Text", "string"), THROTTLE], []),
        ([field("Text", "string"), THROTTLE, ERROR], [LOST]),
        ([field("Inner", "[]Struct", fields=[THROTTLE])], [LOST]),
        ([ERROR, {**THROTTLE, "taggedVersions": "0+", "tag": 0}], [LOST]),
    ],
)
def test_a_throttle_time_that_cannot_be_found_is_undecided(
    tmp_path: Path, fields: Fields, lost: list[str]
) -> None:
    """Sluice writes it at a fixed place, or as the last field."""
    made = Definitions()
    made.add(KEY, "ShineTopics", "0", "0+", [], fields)
    questions = [each.path for each in undecided(made.written(NEW, tmp_path / "made"))]
    assert questions == lost


def test_an_api_of_ours_that_begins_to_name_topics_is_named(tmp_path: Path) -> None:
    """Policies judge those in its requests, and cut those out of its replies."""
    made = Definitions()
    topic = field("Topic", "string", "2+", entityType="topicName")
    made.add(*(57, "UpdateFeatures", "0-2", "0+"), [field("Wait", "int32"), topic], [ERROR])
    items = field("Items", "[]Item", "2+", fields=[topic])
    made.add(*(48, "DescribeClientQuotas", "0-2", "1+"), [], [ERROR, items])
    lines = [*missing(made.written(NEW, tmp_path / "made"), KNOWN)]
    assert Missing("wire/request_layouts.py", "UpdateFeatures 4 t@2+") in lines
    assert Missing("wire/listing_cuts.py", "DescribeClientQuotas c {t}@2+") in lines


def test_a_version_that_demands_rights_is_named_with_what_it_may_name(tmp_path: Path) -> None:
    """A text in a request may be the name of something: a person says which right it asks for."""
    made = Definitions()
    request = made.messages["HeartbeatRequest"]
    request["validVersions"] = "0-5"
    request["fields"] += [field("Owner", "string", "5+"), field("GroupInstance", "int64", "5+")]
    new = made.written(NEW, tmp_path / "made")
    line = "Heartbeat 0-5, if KafkaApis demands no other right"
    assert Missing("wire/authorization.py", line, "Heartbeat 0-4") in [*missing(new, KNOWN)]
    assert [each.path for each in unjudged(new)] == ["HeartbeatRequest v5+: Owner"]


def test_a_version_that_is_not_offered_is_decided(tmp_path: Path) -> None:
    """No client meets what is in it: InitProducerId v6 may hold any field, and v5 may not."""
    made = Definitions()
    made.add(*(22, "InitProducerId", "5-6", "2+"), [field("Host", "string", "6+")], [ERROR])
    assert not [*undecided(made.written(NEW, tmp_path / "hidden"))]
    made.add(*(22, "InitProducerId", "5-6", "2+"), [field("Host", "string", "5+")], [ERROR])
    (one,) = undecided(made.written(NEW, tmp_path / "offered"))
    assert one.path == "InitProducerIdRequest v5+: Host"


def test_a_message_that_the_codec_lacks_can_be_made_of_any_type(tmp_path: Path) -> None:
    """The lines that are printed make a class that is encoded and decoded."""
    made = Definitions()
    types = (*FIXED_BYTES, "string", "bytes", "records")
    fields = [field(f"A{type_.title()}", type_) for type_ in types if type_ != "uint32"]
    fields += [field("WaitMs", "int32", default="0x10"), field("LongMs", "int64", default="-1")]
    fields += [field("Inner", "[]Struct", fields=[field("Deep", "[]int32")])]
    made.add(KEY, "ShineTopics", "0", "0+", fields, [ERROR])
    request = made.written(NEW, tmp_path / "made").messages[KEY, "request"]
    lines = newer_messages.read_lines(newer_lines(request, 0))[KEY, 0, "request"]
    shape = shape_of(newer_messages._Maker(KEY, 0, "request", lines).message())
    body = codec.encode(make_message(shape, 0))
    assert check(shape, body, 0, len(body), 99) == (len(body), 99)


def test_an_unstable_version_is_not_offered(tmp_path: Path) -> None:
    """A broker announces it only if it is told to (`latestVersionUnstable`)."""
    made = next_release()
    made.messages["ShineTopicsRequest"]["latestVersionUnstable"] = True
    old, new = (
        Definitions().written(OLD, tmp_path / "old"),
        made.written(NEW, tmp_path / "new"),
    )
    assert f'_api({KEY}, "ShineTopics", "0-1", DATA, offered="0", ' in "\n".join(
        report(old, new, KNOWN)[0]
    )


def test_the_facts_of_a_release_are_added_and_those_of_earlier_ones_stay(tmp_path: Path) -> None:
    """The line of a version that is still valid stays as it is; that of a removed one says until when it was."""
    new = next_release().written(NEW, tmp_path / "new")
    rows = [*map(row, merged(KNOWN, new, "98.0"))]
    assert "12,Heartbeat,request,0,3.9..98.0,yes,no,1,,," in rows
    assert "12,Heartbeat,request,1,3.9+,yes,no,1,,," in rows
    assert "25,AddOffsetsToTxn,response,3,3.9+,yes,yes,1,0,LeaderEndpoints/Host," in rows
    assert f"{KEY},ShineTopics,request,1,99.0+,yes,yes,2,,,TimeoutMs" in rows
    assert len(rows) == len(KNOWN) + 6


def test_a_zip_is_read_as_a_folder_is(tmp_path: Path) -> None:
    """A jar is one."""
    folder = Definitions().written(OLD, tmp_path / "folder")
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as packed:
        for path in (tmp_path / "folder").iterdir():
            packed.write(path, f"inside/{path.name}")
    packed_release = read_release(OLD, tmp_path / "made.zip")
    assert packed_release.messages == folder.messages
    assert read_errors(packed_release.files) == read_errors(folder.files)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.unlink(), "half of one; keys .12"),
        (
            lambda path: path.write_text('{"apiKey": 12'),
            "HeartbeatRequest.json is no message definition",
        ),
        (lambda path: path.write_text("{}"), "HeartbeatRequest.json is no message definition"),
    ],
)
def test_definitions_that_cannot_be_read_are_named(tmp_path: Path, change, words: str) -> None:
    """A release that was read in part would look like one that removed APIs."""
    Definitions().written(OLD, tmp_path / "made")
    change(tmp_path / "made" / "HeartbeatRequest.json")
    with pytest.raises(DefinitionError, match=words):
        read_release(OLD, tmp_path / "made")


def test_a_release_without_a_lock_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """The command says which releases it knows."""
    assert main(["99.9.9"]) == UNREADABLE
    assert "make kafka-lock VERSION=99.9.9" in capsys.readouterr().err


def test_a_new_lock_resolves_what_the_newest_one_did(tmp_path: Path) -> None:
    """Kafka's own version changes, and that of the logging library stays."""
    lock = tmp_path / "kafka-4.4.0.lock"
    lock.write_text("# resolved from a:kafka_2.13:4.4.0 b:log:2.4.4, without c:d\nx:y:4.4.0 00\n")
    assert head_for("4.5.1", lock) == "# resolved from a:kafka_2.13:4.5.1 b:log:2.4.4, without c:d"


@pytest.mark.slow
def test_the_newest_lock_is_made_again_as_it_is(tmp_path: Path) -> None:
    """Else the next release's would differ from it in more than its versions."""
    text = newest_lock().read_text("utf-8")
    assert locked(text.splitlines()[0], tmp_path) == text


def test_the_modules_that_read_by_hand_exist() -> None:
    """A module that was moved is named at its new place."""
    files = {file for files in BY_HAND for file in files.split(", ")}
    assert not [file for file in files if not (ROOT / file).exists()]


@pytest.mark.parametrize(
    ("text", "versions"),
    [("none", []), ("3", [3]), ("0-2", [0, 1, 2]), ("9+", range(9, 1 << 15))],
)
def test_versions_are_read_as_kafka_writes_them(text: str, versions: Iterable[int]) -> None:
    """One version, a span, all from one on, or none."""
    assert [*range_of(text)] == [*versions]
