"""A denied item beside an allowed one in each API that Kafka divides, with a real Kafka."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.topics import Topics
from tests.support.messages import divided_requests as d
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.processes.sluice_process import SluiceProcess
from wire import codec
from wire.apis import Api, ApiKey
from wire.errors import ErrorCode
from wire.schema import make_message

CHANGES = {
    "CreateTopics",
    "DeleteTopics",
    "CreatePartitions",
    "DeleteGroups",
    "DeleteShareGroupOffsets",
}
"""They are asked for once, through Sluice: a second time the broker says something else."""
NEWEST = {
    name: max((api for api in d.VERSIONS if api.name == name), key=lambda api: api.version)
    for name in d.KINDS
}
OLDER = [api_of(ApiKey.OFFSET_FETCH, 7), api_of(ApiKey.PRODUCE, 9), api_of(ApiKey.FETCH, 12)]
NAMES = {d.TOPIC: ("", ""), d.GROUP: ("g-good", "g-bad"), d.TRANSACTION: ("x-good", "x-bad")}


def rules(bad: str) -> list[dict[str, object]]:
    """Policies that allow everything but these, and this topic if it is given."""
    everything = {"*": ["all"]}
    denied = {
        "topics": {bad or "none": ["all"]},
        "groups": {"g-bad": ["all"]},
        "transactions": {"x-bad": ["all"]},
    }
    allowed = {
        "who": ["ANONYMOUS"],
        "topics": everything,
        "groups": everything,
        "transactions": everything,
        "cluster": ["all"],
    }
    config = {"rules": [allowed, {"who": ["ANONYMOUS"], "effect": "deny", **denied}]}
    return [{"use": "access", "config": config}]


def ask(talk: Talk, api: Api, items: dict[str, tuple[int, ...]], **fields: object) -> bytes:
    """The reply frame to a request of these items."""
    number = talk.next_id()
    talk.send(d.request(api, items, number, **fields))
    answer = talk.receive()
    assert answer is not None, f"{api.name} is not answered"
    return bytes(8) + answer


def items_in(api: Api, frame: bytes) -> dict[object, object]:
    """The items of a reply as they are, by name."""
    message = d.decoded(api, frame)
    return dict(d.named_items(api, message))


def denied_in(api: Api, frame: bytes) -> bool:
    """Whether an item of this reply is denied."""
    return any(each[-1] == ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in d.codes_in(api, frame))


def has_coordinator(broker: Talk) -> bool:
    """Whether the offsets of the group can be read: its coordinator is made when it is asked for."""
    ask(broker, api_of(ApiKey.FIND_COORDINATOR, 4), {"g-good": ()})
    api = api_of(ApiKey.OFFSET_FETCH, 7)
    reply = d.decoded(api, ask(broker, api, {}, group_id="g-good"))
    return bool(reply.error_code == ErrorCode.NONE)


def versions_of(talk: Talk) -> dict[int, int]:
    """The newest version of each API that this side offers."""
    api = api_of(ApiKey.API_VERSIONS, 3)
    text = {"client_software_name": "a", "client_software_version": "1"}
    body = codec.encode(make_message(codec.request_shape(api), 0, text))
    talk.send(f.request(api.key, api.version, talk.next_id(), body, tagged=True))
    answer = talk.receive()
    assert answer is not None
    found = codec.decode_response(api, answer)
    return {each.api_key: each.max_version for each in found.api_keys}


def fields_of(api: Api, member: str) -> dict[str, object]:
    """What a request needs beside its items."""
    shape = codec.request_shape(api)
    wanted: dict[str, object] = {
        "group_id": "g-other" if api.name.endswith("ShareGroupOffsets") else "g-good",
        "transactional_id": "x-good" if api.name == "TxnOffsetCommit" else None,
        "generation_id_or_member_epoch": -1,
        "generation_id": -1,
        "validate_only": True,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "response_partition_limit": 100,
    }
    if api.name.startswith("Share"):
        wanted |= {"member_id": member, "group_id": "g-share"}
        wanted["share_session_epoch"] = int(api.key == ApiKey.SHARE_ACKNOWLEDGE)
    return {name: value for name, value in wanted.items() if shape.field(name)}


@pytest.fixture
def places(kafka_one: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A topic that is allowed, and one that is denied; their ids are known."""
    topics = Topics(kafka_one.bootstrap, 1)
    good, bad = topics.make(), topics.make()
    host, port = kafka_one.bootstrap.split(":")
    metadata = api_of(ApiKey.METADATA, 12)
    with Talk(int(port), host) as broker:
        for name in (good, bad):
            (found,) = d.decoded(metadata, ask(broker, metadata, {name: ()})).topics
            monkeypatch.setitem(d.IDS, name, UUID(bytes=found.topic_id.bytes))
    return good, bad


def test_an_allowed_item_is_answered_as_if_it_were_alone(
    kafka_one: KafkaCluster, tmp_path: Path, places: tuple[str, str]
) -> None:
    """And the denied one has Kafka's refusal, in the newest version that this Kafka knows."""
    names = NAMES | {d.TOPIC: places}
    host, port = kafka_one.bootstrap.split(":")
    settings: dict[str, object] = {"policies": rules("")}
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice,
        Talk(int(port), host) as broker,
        Talk(sluice.port) as client,
    ):
        await_that(lambda: has_coordinator(broker), "the coordinator of the group")
        offered = versions_of(client)
        metadata = api_of(ApiKey.METADATA, 12)
        ask(client, metadata, dict.fromkeys(places, ()))  # so that Sluice knows the ids
        members = str(uuid4()), str(uuid4())
        sluice.reload(policies=rules(places[1]))
        await_that(
            lambda: denied_in(metadata, ask(client, metadata, {places[1]: ()})), "the new rules"
        )
        for newest in sorted([*NEWEST.values(), *OLDER], key=lambda api: api.name in CHANGES):
            if newest.key not in offered:
                continue
            api = api_of(newest.key, min(newest.version, offered[newest.key]))
            good, bad = names[d.kind_of(api)]
            if api.name == "CreateTopics":
                good, bad = f"{good}-new", places[1]
            fields = fields_of(api, members[0])
            both = ask(client, api, {bad: (0,), good: (0,)}, **fields)
            codes = {each[0]: each[-1] for each in d.codes_in(api, both)}
            denied = codes.get(bad, codes.get(d.IDS.get(bad)))
            assert denied == d.ask(api, bad).code, f"{api.name} v{api.version}: {codes}"
            if api.name in CHANGES:
                assert codes[good] not in {29, 30, 31, 53}, f"{api.name}: {codes}"
                continue
            # A coordinator's address is Sluice's.
            other = client if api.name == "FindCoordinator" else broker
            alone = ask(other, api, {good: (0,)}, **fields_of(api, members[1]))
            expected = items_in(api, alone)
            found = items_in(api, both)
            assert {key: found.get(key) for key in expected} == expected, (
                f"{api.name} v{api.version}"
            )
        # A share session goes on, though all that it names is denied.
        api = NEWEST["ShareFetch"]
        for epoch in range(3):
            fields = fields_of(api, str(UUID(int=7))) | {"share_session_epoch": epoch}
            refused = ask(client, api, {places[1]: (0,)}, **fields)
            assert d.decoded(api, refused).error_code == ErrorCode.NONE
            assert d.codes_in(api, refused) == [(places[1], 0, 29)]
        # Nothing was done to the denied topic.
        (left,) = d.decoded(metadata, ask(broker, metadata, {places[1]: ()})).topics
        assert (left.error_code, len(left.partitions)) == (ErrorCode.NONE, 1)
