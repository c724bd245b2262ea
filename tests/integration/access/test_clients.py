"""Real clients before `access`: refused with Kafka's own exceptions, then allowed by a change of the rules.

Sluice runs all the time; the clients sign on to it, and it goes to the broker as a super user.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.integration.access.conftest import USERS, Prepared
from tests.support.access.attempts import MALLORY
from tests.support.access.guarded_kafka import (
    Speaker,
    guarding_sluice,
    password_of,
    through,
)
from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_sasl import PLAIN
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since
from tests.support.kafka.verifiable import PRODUCER, SHARE_CONSUMER, config_file
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = since(4, 4)

SECURITY: Final = ClientSecurity(PLAIN, MALLORY, password_of(MALLORY))
TOPIC: Final = "orders"
WAIT_MS: Final = 30_000
SOON_SECONDS: Final = 60
END_SECONDS: Final = 2.5
"""A second by the rule, and the time in which Sluice reads its settings on a busy machine."""
CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONNECT: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_EXCEPTION: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+Exception)")

Rule = dict[str, Any]


class Guarded:
    """Sluice, and the rules that it has now."""

    def __init__(self, sluice: SluiceProcess) -> None:
        self.sluice = sluice
        self.bootstrap = sluice.bootstrap

    def allow(self, *rules: Rule) -> None:
        """Let mallory do this, and nothing else; return when it holds."""
        marker = f"marker-{time.monotonic_ns()}"
        mine = [{"who": [MALLORY], **rule} for rule in rules]
        mine.append({"who": [MALLORY], "groups": {marker: ["describe"]}})
        self.reload(mine)
        with through(self.sluice, MALLORY) as speaker:
            await_that(lambda: _finds(speaker, marker), "the new rules")

    def reload(self, rules: list[Rule]) -> None:
        """Change the rules, and return at once."""
        self.sluice.reload(policies=[{"use": "access", "config": {"rules": rules}}])


def _finds(speaker: Speaker, group: str) -> bool:
    reply = speaker.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
    return bool(reply.coordinators[0].error_code != 30)


@pytest.fixture(scope="module")
def guarded(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Sluice, which refuses mallory everything at first."""
    folder = tmp_path_factory.mktemp("clients")
    rules = {"rules": [{"who": ["nobody"], "cluster": ["describe"]}]}
    with guarding_sluice(prepared.cluster, folder, USERS, rules) as sluice:
        yield Guarded(sluice)


READS: Final[Rule] = {"topics": {TOPIC: ["read"]}, "groups": {"mallory-*": ["read"]}}
WRITES: Final[Rule] = {"topics": {TOPIC: ["write"]}}


def said(call: Callable[[], object]) -> str:
    """Return the name of the error that a call raises; "" if it succeeds."""
    try:
        call()
    except PythonKafkaError as error:
        return type(error).__name__
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def python_write(bootstrap: str) -> None:
    """Write a record by kafka-python."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, **SECURITY.kafka_python(), max_block_ms=SOON_SECONDS * 1000
    )
    try:
        producer.send(TOPIC, b"x", partition=0).get(timeout=SOON_SECONDS)
    finally:
        producer.close(timeout=1)


def python_read(bootstrap: str) -> None:
    """Read a record in a group by kafka-python."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="mallory-python",
        auto_offset_reset="earliest",
        **SECURITY.kafka_python(),
    )
    try:
        give_up = time.monotonic() + SOON_SECONDS
        while not consumer.poll(timeout_ms=1000):
            assert time.monotonic() < give_up, "no record"
    finally:
        consumer.close(autocommit=False)


def librdkafka_write(bootstrap: str) -> None:
    """Write a record by librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, **SECURITY.librdkafka()})
    errors: list[KafkaError] = []
    producer.produce(
        TOPIC, b"x", on_delivery=lambda error, _: errors.append(error) if error else None
    )
    assert producer.flush(SOON_SECONDS) == 0
    if errors:
        raise KafkaException(errors[0])


def librdkafka_read(bootstrap: str) -> None:
    """Read a record in a group by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "mallory-librdkafka",
            "auto.offset.reset": "earliest",
            **SECURITY.librdkafka(),
        }
    )
    try:
        consumer.subscribe([TOPIC])
        give_up = time.monotonic() + SOON_SECONDS
        while True:
            message = consumer.poll(1)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                return
            assert time.monotonic() < give_up, "no record"
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("write", "read", "no_write", "no_read", "no_group"),
    [
        (
            python_write,
            python_read,
            "TopicAuthorizationFailedError",
            "",  # its consumer only logs it
            "GroupAuthorizationFailedError",
        ),
        (
            librdkafka_write,
            librdkafka_read,
            "TOPIC_AUTHORIZATION_FAILED",
            "TOPIC_AUTHORIZATION_FAILED",
            "GROUP_AUTHORIZATION_FAILED",
        ),
    ],
    ids=["kafka-python", "librdkafka"],
)
def test_python_clients_are_refused_until_a_rule_allows_it(
    guarded: Guarded,
    write: Callable[[str], None],
    read: Callable[[str], None],
    no_write: str,
    no_read: str,
    no_group: str,
) -> None:
    """Without a right, with that to the topic alone, with that to the group alone, and with both."""
    guarded.allow()
    assert said(lambda: write(guarded.bootstrap)) == no_write
    guarded.allow({"topics": {TOPIC: ["read"]}})
    assert said(lambda: read(guarded.bootstrap)) == no_group
    guarded.allow({"groups": {"mallory-*": ["read"]}})
    assert not no_read or said(lambda: read(guarded.bootstrap)) == no_read
    guarded.allow(READS, WRITES)
    assert said(lambda: write(guarded.bootstrap)) == ""
    assert said(lambda: read(guarded.bootstrap)) == ""


def test_an_admin_client_gets_one_error_for_each_topic(guarded: Guarded) -> None:
    """Librdkafka's admin: the allowed topic is made, and the other one is not."""
    guarded.allow({"topics": {"mallory.*": ["create", "delete", "describe"]}})
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, **SECURITY.librdkafka()})
    new = [NewTopic(name, 1, 1) for name in ("mallory.own", "others.own")]
    results = admin.create_topics(new)
    assert said(lambda: results["mallory.own"].result(SOON_SECONDS)) == ""
    assert said(lambda: results["others.own"].result(SOON_SECONDS)) == "TOPIC_AUTHORIZATION_FAILED"
    await_that(lambda: "mallory.own" in admin.list_topics(timeout=30).topics, "the new topic")
    assert set(admin.list_topics(timeout=30).topics) == {"mallory.own"}


def java_fails(java: Java, main: str, *arguments: str) -> set[str]:
    """Return the names of Kafka's exceptions that a tool shows, whatever its exit code; none if it ends well."""
    done = subprocess.run(
        java.command(main, *arguments), capture_output=True, text=True, timeout=120, check=False
    )
    return set(_EXCEPTION.findall(done.stdout + done.stderr))


def test_javas_producer_and_consumers_see_kafkas_exceptions(
    guarded: Guarded, java: Java, tmp_path: Path
) -> None:
    """VerifiableProducer, the console consumer and the verifiable share consumer: refused, then allowed."""
    config = config_file(tmp_path / "client.properties", SECURITY.java())
    write = (
        *("--bootstrap-server", guarded.bootstrap, "--topic", TOPIC),
        *("--max-messages", "3", "--command-config", config),
    )
    read = (
        *("--bootstrap-server", guarded.bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--max-messages", "1", "--timeout-ms", "30000", "--command-config", config),
        *("--group", "mallory-java"),
    )
    guarded.allow()
    assert "TopicAuthorizationException" in java.run_tool(PRODUCER, *write)
    guarded.allow({"topics": {TOPIC: ["read"]}})
    assert java_fails(java, CONSOLE, *read) == {"GroupAuthorizationException"}
    guarded.allow({"groups": {"mallory-*": ["read"]}})
    assert java_fails(java, CONSOLE, *read) == {"TopicAuthorizationException"}
    guarded.allow(READS, WRITES)
    assert "TopicAuthorizationException" not in java.run_tool(PRODUCER, *write)
    assert java_fails(java, CONSOLE, *read) == set()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, "GroupAuthorizationException"),
        ({"groups": {"mallory-*": ["read"]}}, "TopicAuthorizationException"),
        (READS, ""),
    ],
    ids=["nothing", "the group", "both"],
)
def test_a_share_consumer_needs_its_group_and_its_topic(
    guarded: Guarded, java: Java, tmp_path: Path, rule: Rule, expected: str
) -> None:
    """VerifiableShareConsumer ends with Kafka's own exception, or reads."""
    guarded.allow(*([rule] if rule else []))
    config = config_file(tmp_path / "client.properties", SECURITY.java())
    output = tmp_path / "share"
    tool = java.start_tool(
        SHARE_CONSUMER,
        *("--bootstrap-server", guarded.bootstrap, "--topic", TOPIC),
        *("--group-id", "mallory-share", "--command-config", config),
        output=output,
    )
    errors = output.with_suffix(".err")
    sign = expected or "startup_complete"
    try:
        await_that(
            lambda: sign in output.read_text() + errors.read_text(),
            f"{sign} of a share consumer",
            said=lambda: output.read_text()[-500:] + errors.read_text()[-500:],
        )
        if not expected:
            assert "AuthorizationException" not in output.read_text() + errors.read_text()
    finally:
        tool.kill()
        tool.wait()


@pytest.mark.slow  # a worker without rights tries for a minute
def test_a_connect_worker_says_which_right_it_lacks(
    guarded: Guarded, java: Java, tmp_path: Path
) -> None:
    """Without the right to its topics it ends; with it, and the group, it is ready."""
    topics = {f"{each}.storage.topic": f"connect-{each}" for each in ("offset", "config", "status")}
    own = {
        **SECURITY.java(),
        **topics,
        **{f"{each}.storage.replication.factor": "1" for each in ("offset", "config", "status")},
        "bootstrap.servers": guarded.bootstrap,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "listeners": "http://127.0.0.1:0",
        **{f"producer.{key}": value for key, value in SECURITY.java().items()},
        **{f"consumer.{key}": value for key, value in SECURITY.java().items()},
        **{f"admin.{key}": value for key, value in SECURITY.java().items()},
    }
    config = config_file(tmp_path / "worker.properties", own)
    guarded.allow({"groups": {"connect": ["read"]}})
    assert "TopicAuthorizationException" in java_fails(java, CONNECT, config)
    guarded.allow(
        {
            "topics": {
                "connect-*": ["read", "write", "create", "describe", "describe-configs"],
            },
            "groups": {"connect": ["read"]},
            "transactions": {"connect-*": ["write"]},
        }
    )
    output = tmp_path / "connect"
    worker = java.start_tool(CONNECT, config, output=output)
    errors = output.with_suffix(".err")
    try:
        admin = through(guarded.sluice, MALLORY)
        with admin:
            await_that(
                lambda: _members(admin, "connect") == 1,
                "a worker in its group",
                said=lambda: output.read_text()[-1500:] + errors.read_text()[-1500:],
            )
    finally:
        worker.kill()
        worker.wait()


def _members(speaker: Speaker, group: str) -> int:
    (described,) = speaker.ask("DescribeGroups", 5, groups=[group]).groups
    return len(described.members) if described.group_state == "Stable" else 0


def test_a_long_fetch_of_a_revoked_topic_ends_within_a_second(guarded: Guarded) -> None:
    """A consumer waits 30 s at the broker for a record; its right goes, and its next answer says so."""
    guarded.allow(READS)
    part = {"partition": 1, "fetch_offset": 1_000_000, "partition_max_bytes": 1000}
    part |= {"current_leader_epoch": -1}
    with through(guarded.sluice, MALLORY) as speaker:
        (topic,) = speaker.ask("ListOffsets", 6, topics=[_end(TOPIC)], replica_id=-1).topics
        part["fetch_offset"] = topic.partitions[0].offset
        fetch = {
            "max_wait": WAIT_MS,
            "min_bytes": 1,
            "replica_id": -1,
            "topics": [{"topic": TOPIC, "partitions": [part]}],
        }
        guarded.reload([{"who": ["nobody"], "cluster": ["describe"]}])
        began = time.monotonic()
        while True:
            (answered,) = _first(speaker.ask("Fetch", 11, **fetch)) or (0,)
            if answered:
                break
        assert answered == 29
        assert time.monotonic() - began < END_SECONDS


def _end(topic: str) -> dict[str, Any]:
    return {"name": topic, "partitions": [{"partition_index": 1, "timestamp": -1}]}


def _first(reply: Any) -> list[int]:
    return [int(part.error_code) for each in reply.responses for part in each.partitions]


def test_a_share_session_of_a_revoked_topic_ends(guarded: Guarded, prepared: Prepared) -> None:
    """Its next fetch, which names no topic, is told that the session is gone; a new one is refused the topic."""
    guarded.allow(READS)
    topic_id = prepared.topic_ids[TOPIC]
    member = "00000000-0000-4000-8000-0000000000aa"
    with through(guarded.sluice, MALLORY) as speaker:
        joined = speaker.ask(
            *("ShareGroupHeartbeat", 1),
            group_id="mallory-session",
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=[TOPIC],
        )
        assert joined.error_code == 0
        fetch = {
            "group_id": "mallory-session",
            "member_id": member,
            "max_wait": 100,
            "min_bytes": 0,
            "max_bytes": 1000,
            "max_records": 1,
            "batch_size": 1,
        }
        topics = [
            {
                "topic_id": topic_id,
                "partitions": [{"partition_index": 1, "acknowledgement_batches": []}],
            }
        ]
        first = speaker.ask("ShareFetch", 1, share_session_epoch=0, topics=topics, **fetch)
        assert first.error_code == 0
        guarded.allow({"groups": {"mallory-*": ["read"]}})
        again = speaker.ask("ShareFetch", 1, share_session_epoch=1, topics=[], **fetch)
        assert again.error_code == 122  # SHARE_SESSION_NOT_FOUND
        anew = speaker.ask("ShareFetch", 1, share_session_epoch=0, topics=topics, **fetch)
        assert _first(anew) == [29]


def test_a_member_of_a_revoked_group_is_refused_at_its_next_heartbeat(guarded: Guarded) -> None:
    """Librdkafka's consumer, which reads, is told so within seconds: it sends heartbeats and fetches on."""
    guarded.allow(READS)
    consumer = Consumer(
        {
            "bootstrap.servers": guarded.bootstrap,
            "group.id": "mallory-revoked",
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": WAIT_MS,
            "auto.offset.reset": "latest",
            **SECURITY.librdkafka(),
        }
    )
    try:
        consumer.subscribe([TOPIC])
        await_that(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "a member")
        guarded.reload([{"who": ["nobody"], "cluster": ["describe"]}])
        began = time.monotonic()
        codes: set[int] = set()
        while not codes & {29, 30}:
            assert time.monotonic() - began < SOON_SECONDS, codes
            message = consumer.poll(0.1)
            if message is not None and message.error():
                codes.add(message.error().code())
        assert time.monotonic() - began < END_SECONDS + 1
    finally:
        with suppress(KafkaException):
            consumer.close()
