"""A real Kafka with an authorizer, prepared for comparisons, and a Sluice with `access` before it.

- Users speak to the broker by SASL/PLAIN; who comes by the plain listener is ANONYMOUS, a super user: the tests, and
  Sluice. So what Sluice does not refuse, nobody does.
- There are topics, groups with offsets and members, and open transactions (`random_requests` has their names).
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from policies.credential_guard import guarded_apis
from proxy.core.auth.scram import MECHANISMS
from proxy.core.auth.stored_users import new_credential
from proxy.core.auth.users_text import with_credentials
from tests.support.access.field_values import (
    FRESH,
    GONE,
    GROUPS,
    TOPICS,
    TRANSACTIONS,
    random_batch,
)
from tests.support.access.rule_sets import Right
from tests.support.access.speaker import Speaker, password_of
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import LISTENER, SaslListener
from tests.support.kafka.load import await_that
from tests.support.processes.sluice_process import SluiceProcess

OWN_USER: Final = "sluice"
"""Sluice's own, where it has one."""
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{OWN_USER}",
    "allow.everyone.if.no.acl.found": "false",
}
_HOUR: Final = "3600000"
LONG_SESSIONS: Final = {
    f"group.{kind}.{name}": _HOUR
    for kind in ("consumer", "share", "streams")
    for name in ("session.timeout.ms", "max.session.timeout.ms")
} | {"group.min.session.timeout.ms": "100"}
"""Members that the tests make once stay members."""


def guarded_kafka(
    directory: Path, network: int, java: Java, users: Iterable[str], **more: str
) -> KafkaCluster:
    """Return the cluster, not started. `more`: further settings of the broker, with `_` for the dots."""
    settings = AUTHORIZER | LONG_SESSIONS | {key.replace("_", "."): more[key] for key in more}
    listener = SaslListener({user: password_of(user) for user in (*users, OWN_USER)})
    return KafkaCluster(directory, 1, network, java, PlainUsers(listener), settings, heap="384m")


@dataclass(frozen=True, slots=True)
class PlainUsers:
    """The listener of `kafka_sasl` whose users have no SCRAM keys: making them costs the start of a broker."""

    listener: SaslListener

    @property
    def protocols(self) -> dict[str, str]:
        """Listener name to security protocol."""
        return self.listener.protocols

    def properties(self, host: str) -> Iterator[str]:
        """Yield the lines of the server.properties of the broker at `host`."""
        return self.listener.properties(host)

    def format_arguments(self) -> Iterable[str]:
        """Return no further arguments."""
        return ()


def users_file(file: Path, users: Iterable[str]) -> Path:
    """Write a users file of `listen.sasl`."""
    text = ""
    for user in users:
        credential = new_credential(
            MECHANISMS["SCRAM-SHA-256"], password_of(user).encode(), secrets.token_bytes(16), 4096
        )
        text = with_credentials(text, user, [credential])
    file.write_text(text)
    file.chmod(0o600)
    return file


def guarding_sluice(
    cluster: KafkaCluster,
    directory: Path,
    users: Iterable[str],
    config: dict[str, Any],
    *,
    custody: bool = False,
) -> SluiceProcess:
    """Return a Sluice, not started, that goes to the cluster as a super user. Its only policy is `access`.

    custody: it goes there by a password of its own, and lets `access` alone judge what is about credentials.
    """
    directory.mkdir(parents=True, exist_ok=True)
    file = users_file(directory / "users", users)
    upstream: dict[str, object] = {}
    if custody:
        (directory / "password").write_text(password_of(OWN_USER))
        upstream["sasl"] = {
            "mechanism": "PLAIN",
            "username": OWN_USER,
            "password_file": str(directory / "password"),
            "forward_credential_apis": list(guarded_apis()),
        }
    return SluiceProcess(
        cluster.sasl_bootstrap if custody else cluster.bootstrap,
        directory,
        upstream_settings=upstream,
        listen_settings={"sasl": {"mechanisms": ["PLAIN"], "users_file": str(file)}},
        settings={"policies": [{"use": "access", "config": config}] if config else []},
    )


def direct(cluster: KafkaCluster, user: str) -> Speaker:
    """Return a user's connection to the broker; a super user's without a name."""
    broker = cluster.brokers[1]
    port = broker.further[LISTENER] if user else broker.port
    return Speaker(broker.host, port, user)


def through(sluice: SluiceProcess, user: str) -> Speaker:
    """Return a user's connection to Sluice, at the port of the broker."""
    return Speaker(sluice.address, sluice.node_port(1), user)


def prepare(cluster: KafkaCluster) -> dict[str, uuid.UUID]:
    """Make the topics, groups and transactions; return the topics' ids by name."""
    with direct(cluster, "") as root:
        topics = [
            {"name": name, "num_partitions": 2, "replication_factor": 1, "timeout": 10_000}
            for name in (*TOPICS, *GONE)
        ]
        for each in topics:
            del each["timeout"]
        root.ask("CreateTopics", 7, topics=topics, timeout=20_000)
        await_that(lambda: all(_writes(root, topic) for topic in TOPICS), "leaders of all topics")
        for group in GROUPS:
            await_that(lambda group=group: _commits(root, group), f"offsets of {group}")  # type: ignore[misc]
        _make_members(root)
        for name, topic in zip(TRANSACTIONS, ("orders", "pay.in"), strict=True):
            await_that(
                lambda name=name, topic=topic: _begins(root, name, topic),  # type: ignore[misc]
                f"transaction {name}",
            )
        described = root.ask("Metadata", 12, topics=None)
        return {each.name: each.topic_id for each in described.topics}


def _writes(root: Speaker, topic: str) -> bool:
    parts = [{"index": index, "records": random_batch()} for index in (0, 1)]
    reply = root.ask(
        "Produce", 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": parts}]
    )
    return all(not part.error_code for each in reply.responses for part in each.partition_responses)


def _commits(root: Speaker, group: str) -> bool:
    root.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])  # it makes the topic
    topics = [
        {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
        for topic in TOPICS
    ]
    reply = root.ask(
        "OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=-1, topics=topics
    )
    return all(not part.error_code for each in reply.topics for part in each.partitions)


def _make_members(root: Speaker) -> None:
    topics = ("orders", "hr.people")
    new = {"member_epoch": 0, "rebalance_timeout": 60_000}
    for name, group, more in (
        ("ConsumerGroupHeartbeat", "hr-app", {"topic_partitions": [], **new}),
        ("ShareGroupHeartbeat", "share-app", {"member_epoch": 0}),
    ):
        member = str(uuid.uuid4())
        fields = {"group_id": group, "member_id": member, "subscribed_topic_names": topics, **more}
        await_that(
            lambda name=name, fields=fields: not root.ask(name, 1, **fields).error_code,  # type: ignore[misc]
            f"a member of {group}",
        )
    streams = {
        "group_id": "streams-app",
        "member_id": str(uuid.uuid4()),
        "process_id": "process",
        "topology": {
            "epoch": 0,
            "subtopologies": [{"subtopology_id": "0", "source_topics": list(topics)}],
        },
        **{name: [] for name in ("active_tasks", "standby_tasks", "warmup_tasks")},
        **new,
    }
    await_that(
        lambda: not root.ask("StreamsGroupHeartbeat", 0, **streams).error_code,
        "a member of streams-app",
    )


def _begins(root: Speaker, name: str, topic: str) -> bool:
    root.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[name])
    begun = root.ask("InitProducerId", 4, transactional_id=name, transaction_timeout=900_000)
    if begun.error_code:
        return False
    added = root.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[{"name": each, "partitions": [0]} for each in (topic, "hr.people")],
    )
    (result,) = {
        part.partition_error_code
        for each in added.results_by_topic_v3_and_below
        for part in each.results_by_partition
    }
    return not result


def give(cluster: KafkaCluster, rights: dict[str, list[Right]]) -> None:
    """Give these rights to users of the broker, as ACLs."""
    with direct(cluster, "") as root:
        creations = [line.acl(user) for user, lines in rights.items() for line in lines]
        for at in range(0, len(creations), 500):
            reply = root.ask("CreateAcls", 3, creations=creations[at : at + 500])
            assert {each.error_code for each in reply.results} == {0}, reply


def fresh(body: bytes, serial: int) -> bytes:
    """Return the body of a request with this number in its new names."""
    return body.replace(FRESH.encode(), b"--%06d" % serial)
