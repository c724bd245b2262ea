"""Credential custody before a real Kafka, under attack: clients ask for what the broker judges by Sluice's user.

The broker has no authorizer, so it grants its user everything: what is refused here is refused by Sluice. Each attack
is sent raw, by a client that does not care what ApiVersions offers; its effect is looked for at the broker itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.support.kafka.custody_attacks import (
    ATTACKS,
    BROKER,
    REFUSED,
    alter,
    ask,
    codes,
    custody,
    offered,
    resource,
)
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_PLAINTEXT
from tests.support.kafka.kafka_sasl import SCRAM_256, SCRAM_512
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import ALICE, SLUICE, Files
from tests.support.messages.sasl import Scram
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import ApiKey, name_of
from wire.errors import ErrorCode

ANY_ACL: Final = (
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
MALLORY: Final = ("mallory", "made-by-an-attack")


@pytest.fixture(scope="module", params=["scram", "plain", "certificate"])
def sluice(
    request: pytest.FixtureRequest,
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SluiceProcess]:
    """Sluice with a login of its own, by a password or a certificate; its clients need none."""
    directory = tmp_path_factory.mktemp(f"custody-{request.param}")
    with custody(request.param, kafka_secure, security_files, directory) as process:
        yield process


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda each: name_of(each[0]))
def test_an_api_of_credentials_or_membership_is_refused_and_hidden(
    sluice: SluiceProcess, attack: tuple[int, int]
) -> None:
    """Its reply has CLUSTER_AUTHORIZATION_FAILED in its own shape, and the connection stays."""
    with Talk(sluice.port) as talk:
        assert attack[0] not in offered(talk)
        reply = ask(talk, *attack, ATTACKS[attack])
        assert codes(reply) == {REFUSED}
        assert talk.metadata()


def test_no_token_is_made_and_none_is_shown(
    sluice: SluiceProcess, kafka_secure: KafkaCluster
) -> None:
    """A token of Sluice's user would be a login at the broker, past Sluice; those of others are not shown."""
    broker = kafka_secure.brokers[1]
    with Talk(broker.further[SASL_PLAINTEXT], broker.host) as direct:
        assert direct.scram(Scram(SCRAM_256, *ALICE)) is not None
        other = direct.who()
        assert other is not None
        assert other.hmac
    with Talk(sluice.port) as talk:
        token = talk.who()
        shown = ask(talk, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
    assert token is not None
    assert (token.token_id, token.hmac) == ("", b"")
    assert shown.tokens == ()


def test_no_login_is_made_and_no_password_is_changed(
    sluice: SluiceProcess, kafka_secure: KafkaCluster
) -> None:
    """A login that an attack makes works nowhere, and Sluice's own still does."""
    changes = [
        {
            "name": name,
            "mechanism": 2,
            "iterations": 4096,
            "salt": b"salt",
            "salted_password": bytes(64),
        }
        for name in (MALLORY[0], SLUICE[0])
    ]
    with Talk(sluice.port) as talk:
        ask(talk, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": changes})
    broker = kafka_secure.brokers[1]
    with Talk(broker.further[SASL_PLAINTEXT], broker.host) as direct:
        found = ask_as_admin(direct, {"users": [{"name": MALLORY[0]}]})
    assert found == {MALLORY[0]: ErrorCode.RESOURCE_NOT_FOUND}
    with Talk(broker.further[SASL_PLAINTEXT], broker.host) as direct:
        answer = direct.scram(Scram(SCRAM_512, *SLUICE))
        assert answer is not None
        assert answer.error_code == 0


def ask_as_admin(direct: Talk, users: dict[str, Any]) -> dict[str, int]:
    """Return the error code of each user's SCRAM credentials at the broker."""
    assert direct.scram(Scram(SCRAM_256, "admin", "admin-secret")) is not None
    reply = ask(direct, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users)
    return {each.user: int(each.error_code) for each in reply.results}


def test_a_refusal_is_counted_logged_and_audited(sluice: SluiceProcess) -> None:
    """An operator sees who asked for what, and that Sluice has refused it."""
    with Talk(sluice.port) as talk:
        ask(talk, ApiKey.CREATE_DELEGATION_TOKEN, 3, {"max_lifetime": 1})
        own_port = talk.own_port
    sluice.stop()
    said = sluice.said()
    lines = map(json.loads, (sluice.directory / "audit.jsonl").read_text().splitlines())
    sluice.start()
    refused = [each for each in lines if each["port"] == own_port]
    assert [(each["event"], each["api"], each["policy"], each["error"]) for each in refused] == [
        ("refused", "CreateDelegationToken", "credential_guard", REFUSED.name)
    ]
    assert "credential_guard" in said


@pytest.mark.parametrize("kind", ["scram", "certificate"])
def test_an_operator_may_let_named_apis_through(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path, kind: str
) -> None:
    """They are offered and reach the broker; the others stay refused."""
    names = ("CreateDelegationToken", "IncrementalAlterConfigs")
    if kind == "certificate":
        names = ("DescribeUserScramCredentials", "IncrementalAlterConfigs")
    with (
        custody(kind, kafka_secure, security_files, tmp_path, *names) as process,
        Talk(process.port) as talk,
    ):
        keys = offered(talk)
        assert (ApiKey.CREATE_DELEGATION_TOKEN in keys) is (kind == "scram")
        assert ApiKey.ALTER_USER_SCRAM_CREDENTIALS not in keys
        broker = resource(BROKER, "1", "log.cleaner.threads", "2")
        assert codes(alter(talk, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, [broker])) == {0}
        assert codes(alter(talk, ApiKey.ALTER_CONFIGS, 2, [broker])) == {REFUSED}
        if kind == "scram":
            token = talk.who()
            assert token is not None
            assert token.owner == SLUICE[0]
            assert token.hmac
        else:
            reply = ask(talk, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})
            assert codes(reply) == {0}


def test_client_libraries_report_it_at_once(sluice: SluiceProcess) -> None:
    """kafka-python and librdkafka end the call with an error that says that it is not supported, or not allowed."""
    python = KafkaAdminClient(bootstrap_servers=sluice.bootstrap)
    with pytest.raises(KafkaError):
        python.describe_user_scram_credentials([SLUICE[0]])
    python.close()
    native = AdminClient({"bootstrap.servers": sluice.bootstrap})
    for call in (
        native.describe_user_scram_credentials([SLUICE[0]])[SLUICE[0]],
        native.describe_acls(AclBindingFilter(*ANY_ACL)),
    ):
        with pytest.raises(KafkaException, match=r"_UNSUPPORTED_FEATURE|AUTHORIZATION"):
            call.result(20)
