"""Real clients before `access`: refused with Kafka's own exceptions, then allowed by a change of the rules.

Sluice runs all the time; the clients sign on to it, and it goes to the broker as a super user.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.access.attempts import MALLORY
from tests.support.access.guarded_kafka import through
from tests.support.access.real_clients import (
    READS,
    SECURITY,
    SOON_SECONDS,
    TOPIC,
    WRITES,
    Guarded,
    Rule,
    librdkafka_read,
    librdkafka_write,
    python_read,
    python_write,
    said,
)
from tests.support.access.speaker import Speaker
from tests.support.kafka.java import Java
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since
from tests.support.kafka.verifiable import PRODUCER, SHARE_CONSUMER, config_file

pytestmark = since(4, 4)

CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONNECT: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_EXCEPTION: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+Exception)")


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
