"""Policies that hear replies, before a real Kafka: three client libraries get what a policy has put in, and the audit
log says what came of each act.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient

from tests.support.kafka.java import CONFIG_COMMAND, Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.plugins.reply_editor import KEY, SHOWN
from tests.support.processes.sluice_process import SluiceProcess

EDITOR = "tests.support.plugins.reply_editor:ReplyEditor"
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
SECRET = "s3cret-value-of-a-config"  # noqa: S105 - a canary


class Clients:
    """The views of three client libraries."""

    def __init__(self, bootstrap: str, java: Java) -> None:
        self.server = ("--bootstrap-server", bootstrap)
        self.java = java
        self.python = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.librdkafka = AdminClient({"bootstrap.servers": bootstrap})

    def topics(self) -> dict[str, set[str]]:
        """The names of all topics, by library."""
        return {
            "kafka-python": set(self.python.list_topics()),
            "librdkafka": set(self.librdkafka.list_topics(timeout=30).topics),
            "Java": set(self.java.run_tool(TOPIC_COMMAND, *self.server, "--list").split()),
        }


@pytest.fixture
def sluice(kafka_one: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice with the policies `audit` and ReplyEditor, which hides nothing yet."""
    settings: dict[str, object] = {
        "audit": {"file": str(tmp_path / "audit.jsonl")},
        "policies": [{"use": "audit"}, {"use": EDITOR, "config": {"hidden": []}}],
    }
    with SluiceProcess(
        kafka_one.bootstrap,
        tmp_path / "sluice",
        settings=settings,
        variables={"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        yield process


@pytest.mark.slow
def test_clients_get_what_a_policy_has_put_in(
    sluice: SluiceProcess, topics_one: Topics, java: Java
) -> None:
    """A hidden topic is in no list, and a config has the policy's value; a reload under load costs no connection."""
    hidden, shown = topics_one.make(), topics_one.make()
    clients = Clients(sluice.bootstrap, java)
    for library, names in clients.topics().items():
        assert {hidden, shown} <= names, library

    seen: list[bool] = []
    over = threading.Event()

    def keep_listing() -> None:
        while not over.is_set():
            seen.append(hidden in clients.librdkafka.list_topics(timeout=30).topics)

    lister = threading.Thread(target=keep_listing)
    lister.start()
    sluice.reload(policies=[{"use": "audit"}, {"use": EDITOR, "config": {"hidden": [hidden]}}])
    give_up = time.monotonic() + 60
    while (not seen or seen[-1]) and time.monotonic() < give_up:
        time.sleep(0.05)
    over.set()
    lister.join()
    assert seen == sorted(seen, reverse=True)  # from one read of the list to the next
    assert seen[-1] is False

    for library, names in clients.topics().items():
        assert hidden not in names, library
        assert shown in names, library
    config = clients.librdkafka.describe_configs([ConfigResource(ResourceType.TOPIC, shown)])
    (described,) = config.values()
    assert described.result(30)[KEY].value == SHOWN
    entity = ("--entity-type", "topics", "--entity-name", shown, "--all")
    said = java.run_tool(CONFIG_COMMAND, *clients.server, "--describe", *entity)
    assert f"{KEY}={SHOWN}" in said
    clients.python.close()
    assert "policy_error" not in sluice.said()


def test_the_audit_log_says_what_came_of_each_act(
    sluice: SluiceProcess, topics_one: Topics, tmp_path: Path
) -> None:
    """A topic that exists, one that is made, one that is not there; and no value of a config in the file."""
    there, fresh = topics_one.make(), f"fresh-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": sluice.bootstrap})
    made = admin.create_topics([NewTopic(there, 1, 1), NewTopic(fresh, 1, 1)])
    made[fresh].result(30)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        made[there].result(30)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics([f"{fresh}-no"])[f"{fresh}-no"].result(30)
    entry = ConfigEntry("cleanup.policy", SECRET, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, fresh, incremental_configs=[entry])
    (altered,) = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException):
        altered.result(30)
    sluice.stop()

    text = (tmp_path / "audit.jsonl").read_text()
    assert SECRET not in text
    lines = {line["api"]: line for line in map(json.loads, text.splitlines())}
    create, delete = lines["CreateTopics"], lines["DeleteTopics"]
    assert create["topics"] == [there, fresh]
    assert create["errors"] == [{"name": there, "error": "TOPIC_ALREADY_EXISTS"}]
    assert delete["topics"] == [f"{fresh}-no"]
    assert delete["errors"] == [{"name": f"{fresh}-no", "error": "UNKNOWN_TOPIC_OR_PARTITION"}]
    assert lines["IncrementalAlterConfigs"]["topics"] == [fresh]
    assert lines["IncrementalAlterConfigs"]["errors"] == [
        {"name": fresh, "error": "INVALID_CONFIG"}
    ]
