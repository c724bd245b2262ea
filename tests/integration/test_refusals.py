"""The reason of a refusal, as client libraries and the operator get it: the policy, and its message."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from confluent_kafka.admin import NewTopic as Topic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import PolicyViolationError

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.processes.sluice_process import SluiceProcess

FORBIDDEN = ("CreateTopics", "DeleteTopics", "CreatePartitions")
WORDS = "refused by policy house-rules of Sluice: {} is forbidden here"


@pytest.fixture
def strict(kafka_one: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice that forbids three APIs."""
    config = {"forbidden_apis": FORBIDDEN}
    policies = [{"use": "limits", "name": "house-rules", "config": config}]
    variables = {
        "SLUICE_POLICIES": json.dumps(policies),
        "SLUICE_LOG_FORMAT": "json",
        "SLUICE_AUDIT_FILE": str(tmp_path / "audit.jsonl"),
    }
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", variables=variables) as sluice:
        yield sluice


def test_client_libraries_show_the_policy_and_reason_of_a_refusal(
    strict: SluiceProcess,
) -> None:
    """kafka-python and librdkafka show both; the log names client and API of each refusal."""
    name = f"t-{uuid.uuid4()}"
    python = KafkaAdminClient(bootstrap_servers=strict.bootstrap, client_id="creator")
    with pytest.raises(PolicyViolationError) as refused:
        python.create_topics([NewTopic(name, 1, 1)])
    assert WORDS.format("CreateTopics") in str(refused.value)
    with pytest.raises(PolicyViolationError):
        python.delete_topics([name])
    python.close()
    admin = AdminClient({"bootstrap.servers": strict.bootstrap, "client.id": "widener"})
    answers = {
        "CreateTopics": admin.create_topics([Topic(name, 1, 1)])[name],
        "CreatePartitions": admin.create_partitions([NewPartitions(name, 2)])[name],
        "DeleteTopics": admin.delete_topics([name])[name],
    }
    for api, answer in answers.items():
        with pytest.raises(KafkaException) as raised:
            answer.result(timeout=30)
        # librdkafka asks DeleteTopics in a version that has no place for the words.
        words = "Broker: Policy violation" if api == "DeleteTopics" else WORDS.format(api)
        assert raised.value.args[0].str() == words
    strict.stop()
    told = [
        line
        for line in map(json.loads, filter(_is_json, strict.said().splitlines()))
        if line["event"] == "policy_refused"
    ]
    assert {(line["client_id"], line["api"]) for line in told} <= {
        *(("widener", api) for api in FORBIDDEN),
        ("creator", "CreateTopics"),
        ("creator", "DeleteTopics"),
    }
    assert len(told) == 5
    for line in told:
        assert line["policy"] == "house-rules"
        assert line["reason"] == f"{line['api']} is forbidden here"
        assert (line["error"], line["user"]) == ("POLICY_VIOLATION", "ANONYMOUS")


def test_the_audit_log_has_every_administrative_request(
    strict: SluiceProcess, kafka_one: KafkaCluster
) -> None:
    """It has a real library's requests to a real cluster, in the order of their ends, and never a topic's name."""
    name = f"t-{uuid.uuid4()}"
    direct = AdminClient({"bootstrap.servers": kafka_one.bootstrap})
    direct.create_topics([Topic(name, 1, 1)])[name].result(timeout=30)
    admin = AdminClient({"bootstrap.servers": strict.bootstrap, "client.id": "operator"})
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    with pytest.raises(KafkaException):
        admin.delete_topics([name])[name].result(timeout=30)
    strict.stop()
    text = Path(strict.variables["SLUICE_AUDIT_FILE"]).read_text()
    assert name not in text
    done, refused = map(json.loads, text.splitlines())
    assert (done["event"], done["api"], done["outcome"], done["forwarded"]) == (
        "request",
        "IncrementalAlterConfigs",
        "replied",
        True,
    )
    assert (refused["event"], refused["api"], refused["policy"], refused["forwarded"]) == (
        "refused",
        "DeleteTopics",
        "house-rules",
        False,
    )
    for line in (done, refused):
        assert (line["client_id"], line["user"], line["host"]) == (
            "operator",
            "ANONYMOUS",
            "127.0.0.1",
        )
    direct.delete_topics([name])[name].result(timeout=30)


def _is_json(line: str) -> bool:
    return line.startswith("{")
