"""`sluice access` before a real Kafka: rules made from its ACLs, and from what clients were seen to do."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.one_kafka import running
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

ACL_COMMAND: Final = "org.apache.kafka.tools.AclCommand"
LONG_SECONDS: Final = 60
GUARDED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACLS: Final = [
    ("TOPIC", "orders", "LITERAL", "User:alice", "READ", "ALLOW"),
    ("TOPIC", "orders", "LITERAL", "User:bob", "READ", "ALLOW"),
    ("TOPIC", "bill.", "PREFIXED", "User:svc, host=x", "ALL", "ALLOW"),
    ("TOPIC", "*", "LITERAL", "User:*", "WRITE", "DENY"),
    ("GROUP", "g-", "PREFIXED", "User:alice", "READ", "ALLOW"),
    ("TRANSACTIONAL_ID", "t`(1)", "LITERAL", "User:bob", "WRITE", "ALLOW"),
    ("BROKER", "kafka-cluster", "LITERAL", "User:CN=ops,O=x", "ALTER", "ALLOW"),
]
"""In the words of librdkafka, whose BROKER is the cluster."""


@pytest.fixture(scope="module")
def guarded(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker with Kafka's own authorizer and the ACLs above."""
    folder = tmp_path_factory.mktemp("guarded")
    for cluster in running(KafkaCluster(folder, 1, 84, java, settings=GUARDED)):
        bindings = [
            AclBinding(
                ResourceType[kind],
                name,
                ResourcePatternType[pattern],
                principal,
                "*",
                AclOperation[operation],
                AclPermissionType[permission],
            )
            for kind, name, pattern, principal, operation, permission in ACLS
        ]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_acls(bindings).values():
            future.result(LONG_SECONDS)
        yield cluster


def access(*arguments: str | Path, stdin: str = "") -> str:
    """Return what `sluice access` prints; it must end well."""
    done = subprocess.run(
        [COMMAND, "access", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_acls_of_a_cluster_and_the_output_of_its_tool_become_the_same_rules(
    guarded: KafkaCluster, java: Java
) -> None:
    """Whichever way they are read; each ACL is in a rule."""
    listing = java.run_tool(ACL_COMMAND, "--bootstrap-server", guarded.bootstrap, "--list")

    asked = access("import", "--bootstrap", guarded.bootstrap)
    parsed = access("import", "--from-acls", "-", stdin=listing)

    assert parsed == asked
    assert asked.startswith(f"# The rights of {len(ACLS)} ACLs of Kafka.\n")
    rules = yaml.safe_load(asked)[0]["config"]["rules"]
    assert sorted((rule["who"], rule.get("topics", {})) for rule in rules) == [
        (["*", "ANONYMOUS", "UNKNOWN"], {"*": ["write"], "__*": ["write"]}),
        (["CN=ops,O=x"], {}),
        (["alice"], {"orders": ["read"]}),
        (["bob"], {"orders": ["read"]}),
        (["svc, host=x"], {"bill.*": ["all"]}),
    ]
    by_who = {rule["who"][0]: rule for rule in rules}
    assert by_who["alice"]["groups"] == {"g-*": ["read"]}
    assert by_who["bob"]["transactions"] == {"t`(1)": ["write"]}
    assert "alter-acls" in by_who["CN=ops,O=x"]["cluster"]
    assert by_who["*"]["effect"] == "deny"


def test_the_suggested_rules_allow_what_was_seen_and_nothing_else(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """A client works while the policy observes; with the suggestion enforced it still does, and another is refused."""
    topic, other = topics_one.make(), topics_one.make()
    nobody: list[dict[str, object]] = [{"who": ["nobody"], "cluster": ["describe"]}]
    settings: dict[str, object] = {
        "identity": {"user": "shop"},
        "audit": {"file": str(tmp_path / "audit.jsonl")},
        "usage_log": {"directory": str(tmp_path / "usage"), "families": ["access"]},
        "policies": [{"use": "access", "mode": "observe", "config": {"rules": nobody}}],
    }
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice:
        write_and_read(sluice.bootstrap, topic)
    audited = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    produced = [line for line in audited if line["api"] == "Produce"]
    assert {line["event"] for line in produced} == {"would_refuse"}
    assert produced[0]["denied"] == [f"WRITE topic {topic}"]
    assert produced[0]["reason"] == f"WRITE topic {topic}: no rule allows it"
    text = access("suggest", "-c", sluice.file)
    found = yaml.safe_load(text)[0]["config"]["rules"]

    assert [rule["who"] for rule in found] == [["shop"]]
    assert found[0]["topics"] == {topic: ["read", "write"]}
    assert found[0]["groups"] == {"shop-group": ["read"]}

    settings = {
        "identity": {"user": "shop"},
        "policies": [{"use": "access", "config": {"rules": [*nobody, *found]}}],
    }
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "second", settings=settings) as sluice:
        write_and_read(sluice.bootstrap, topic)
        with pytest.raises(KafkaException) as refused:
            write(sluice.bootstrap, other)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def write_and_read(bootstrap: str, topic: str) -> None:
    """Write a record idempotently, and read one in a group."""
    write(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "shop-group",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(LONG_SECONDS)
        assert message is not None
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def write(bootstrap: str, topic: str) -> None:
    """Write a record. Raises KafkaException if it is refused."""
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: errors.extend([error] if error else [])
    )
    assert producer.flush(LONG_SECONDS) == 0
    if errors:
        raise KafkaException(errors[0])
