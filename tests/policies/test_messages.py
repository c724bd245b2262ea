"""Policies read, change and make messages by Kafka's names, in every version of an API."""

import subprocess
import sys
from datetime import timedelta
from uuid import UUID

import pytest

from policies import messages
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire.apis import Api, ApiKey
from wire.errors import ErrorCode, WireError

VERSIONS = [api for api in apis_known() if api.key == ApiKey.CREATE_TOPICS]


@for_each(VERSIONS)
def test_one_field_changes_and_the_others_stay(api: Api) -> None:
    """A struct inside a message is changed in the same way."""
    topics = [{"name": each, "num_partitions": 3, "replication_factor": 1} for each in "ab"]
    body = messages.encode(messages.make_request(api, {"topics": topics, "timeout": 5_000}))
    message = messages.decode_request(api, body)

    first, second = messages.structs(message, "topics")
    three = messages.changed(first, {"replication_factor": 3})
    after = messages.encode(messages.changed(message, {"topics": [three, second]}))

    wanted = [topics[0] | {"replication_factor": 3}, topics[1]]
    again = messages.make_request(api, {"topics": wanted, "timeout": 5_000})
    assert messages.decode_request(api, after) == again
    assert messages.encode(message) == body


def test_plain_values_become_the_codecs() -> None:
    """Numbers are times and errors, bytes are ids, and sixteen zero bytes are no id."""
    api = api_of(ApiKey.METADATA, 12)
    made = messages.make_response(
        api,
        {
            "throttle_time": 7,
            "topics": [{"error_code": 3, "topic_id": b"i" * 16}, {"topic_id": bytes(16)}],
        },
    )
    first, second = messages.structs(made, "topics")
    assert messages.value(made, "throttle_time", timedelta, timedelta(0)).microseconds == 7_000
    assert messages.value(first, "error_code", int, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert messages.value(first, "topic_id", UUID, UUID(int=0)) == UUID(bytes=b"i" * 16)
    assert messages.value(second, "topic_id", UUID, UUID(int=0)) == UUID(int=0)


def test_arrays_in_arrays_are_joined() -> None:
    """A null array, and one that this version does not have, hold nothing."""
    partitions = [[{"index": 0}, {"index": 4}], [{"index": 1}]]
    topics = [
        {"name": name, "partition_data": each} for name, each in zip("ab", partitions, strict=True)
    ]
    produce = messages.make_request(api_of(ApiKey.PRODUCE, 9), {"topic_data": topics})
    found = messages.structs(produce, "topic_data", "partition_data")
    assert [messages.value(each, "index", int, -1) for each in found] == [0, 4, 1]

    everything = messages.make_request(api_of(ApiKey.METADATA, 12), {"topics": None})
    assert messages.structs(everything, "topics") == ()
    assert messages.structs(everything, "no_such_array") == ()


def test_a_wrong_field_is_named() -> None:
    """The message says what it is, and what was expected."""
    heartbeat = messages.make_request(api_of(ApiKey.HEARTBEAT, 4), {"group_id": "billing"})
    assert messages.value(heartbeat, "group_id", str, "") == "billing"
    assert messages.value(heartbeat, "group_instance_id", str, "none") == "none"
    with pytest.raises(TypeError, match=r"HeartbeatRequest.group_id is a str, expected int"):
        messages.value(heartbeat, "group_id", int, 0)
    with pytest.raises(TypeError, match=r"HeartbeatRequest.group_id is no array of structs"):
        messages.structs(heartbeat, "group_id")

    heartbeat = messages.make_request(api_of(ApiKey.HEARTBEAT, 4), {})
    with pytest.raises(ValueError, match=r"no field 'group'.*did you mean group_id"):
        messages.changed(heartbeat, {"group": "billing"})


def test_an_error_reply_has_the_shape_of_a_refusal() -> None:
    """The code stands beside each item that the request names."""
    api = api_of(ApiKey.CREATE_TOPICS, 7)
    body = messages.encode(messages.make_request(api, {"topics": [{"name": "a"}, {"name": "b"}]}))
    reply = messages.error_reply(api, body, ErrorCode.POLICY_VIOLATION, "three replicas, please")
    found = messages.structs(messages.decode_response(api, reply), "topics")
    assert [
        (
            messages.value(each, "name", str, ""),
            messages.value(each, "error_code", int, 0),
            messages.value(each, "error_message", str, ""),
        )
        for each in found
    ] == [(name, ErrorCode.POLICY_VIOLATION, "three replicas, please") for name in "ab"]
    with pytest.raises(WireError):
        messages.error_reply(api, body[:-2], ErrorCode.POLICY_VIOLATION)


def test_the_codec_is_loaded_by_the_first_message() -> None:
    """Importing `policies.messages` costs no memory of the codec."""
    code = "import sys, policies.messages, policies.api; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, policies.api; sys.exit('wire.codec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
