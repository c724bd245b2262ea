"""Credential custody before a real Kafka: clients change configs of topics and groups, and of nothing else."""

from collections.abc import Iterator

import pytest

from tests.support.kafka.custody_attacks import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    REFUSED,
    TOPIC,
    alter,
    ask,
    codes,
    custody,
    offered,
    resource,
)
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_PLAINTEXT
from tests.support.kafka.one_kafka import since
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import SLUICE, Files
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import ApiKey
from wire.errors import ErrorCode


@pytest.fixture(scope="module")
def sluice(
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SluiceProcess]:
    """Sluice with a login of its own, by a password or a certificate; its clients need none."""
    directory = tmp_path_factory.mktemp("custody")
    with custody("scram", kafka_secure, security_files, directory) as process:
        yield process


@pytest.mark.parametrize(("api", "version"), [("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)])
@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (BROKER, "1", "log.cleaner.threads", "2"),
        (BROKER, "", "log.cleaner.threads", "2"),
        (BROKER_LOGGER, "1", "kafka.server.KafkaApis", "TRACE"),
        (CLIENT_METRICS, "spy", "interval.ms", "1000"),
        (77, "x", "y", "z"),
    ],
    ids=["broker", "every broker", "logger", "client metrics", "an unknown kind"],
)
def test_only_the_configs_of_topics_and_groups_are_changed(
    sluice: SluiceProcess, api: str, version: int, kind: int, name: str, key: str, value: str
) -> None:
    """A resource of another kind is refused by an error in its place; the connection stays."""
    number = {"AlterConfigs": ApiKey.ALTER_CONFIGS}.get(api, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    with Talk(sluice.port) as talk:
        assert number in offered(talk)
        reply = alter(talk, number, version, [resource(kind, name, key, value)])
        assert codes(reply) == {REFUSED}
        assert [(each.resource_type, each.resource_name) for each in reply.responses] == [
            (kind, name)
        ]
        assert talk.metadata()


@since(4, 0)  # configs of groups
@pytest.mark.parametrize(("number", "version"), [(33, 1), (33, 2), (44, 0), (44, 1)])
def test_the_configs_of_topics_and_groups_pass(
    sluice: SluiceProcess, kafka_secure: KafkaCluster, number: int, version: int
) -> None:
    """They are about what clients of Sluice use. A request that is also about a broker is refused whole."""
    topic = Topics(kafka_secure.bootstrap, 1).make()
    ours = resource(TOPIC, topic, "retention.ms", "1234567")
    group = resource(GROUP, "g", "share.session.timeout.ms", "45000")
    broker = resource(BROKER, "1", "log.cleaner.threads", "2")
    with Talk(sluice.port) as talk:
        assert codes(alter(talk, number, version, [ours, broker])) == {REFUSED}
        assert codes(alter(talk, number, version, [ours])) == {ErrorCode.NONE}
        assert codes(alter(talk, number, version, [group])) == {ErrorCode.NONE}


def test_describe_configs_shows_no_password_of_a_broker(sluice: SluiceProcess) -> None:
    """A broker's settings may be read, since Kafka itself returns no value of its secrets."""
    asked = {"resources": [{"resource_type": BROKER, "resource_name": "1"}]}
    with Talk(sluice.port) as talk:
        reply = ask(talk, ApiKey.DESCRIBE_CONFIGS, 4, asked)
    (found,) = reply.results
    values = {each.name: each for each in found.configs}
    login = values[f"listener.name.{SASL_PLAINTEXT.lower()}.plain.sasl.jaas.config"]
    assert login.is_sensitive
    assert login.value is None
    assert SLUICE[1] not in repr(reply)
