"""Credential custody before a real Kafka, under attack: clients ask for what the broker judges by Sluice's user.

The broker has no authorizer, so it grants its user everything: what is refused here is refused by Sluice. Each attack
is sent raw, by a client that does not care what ApiVersions offers; its effect is looked for at the broker itself.
"""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from policies.messages import decode_response, encode, make_request
from tests.support import frames as f
from tests.support.java import Java
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_listeners import MTLS, SASL_PLAINTEXT
from tests.support.kafka_messages import api_of
from tests.support.kafka_sasl import PLAIN, SCRAM_256, SCRAM_512
from tests.support.sasl import Scram
from tests.support.sasl_talk import Talk
from tests.support.security_setups import ALICE, LIFETIME_MS, SLUICE, Files
from tests.support.sluice_process import SluiceProcess
from tests.support.topics import Topics
from wire.apis import ApiKey, name_of
from wire.errors import ErrorCode

pytestmark = pytest.mark.kafka

REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MALLORY: Final = ("mallory", "made-by-an-attack")
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_KEY: Final = bytes(range(32))

ATTACKS: Final[dict[tuple[int, int], dict[str, Any]]] = {
    (ApiKey.CREATE_DELEGATION_TOKEN, 3): {"max_lifetime": 60_000, "owner_principal_type": None},
    (ApiKey.RENEW_DELEGATION_TOKEN, 2): {"hmac": _KEY, "renew_period": 60_000},
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 2): {"hmac": _KEY, "expiry_time_period": -1},
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, 3): {"owners": None},
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0): {"users": None},
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0): {
        "upsertions": [
            {
                "name": MALLORY[0],
                "mechanism": 1,
                "iterations": 4096,
                "salt": b"salt",
                "salted_password": _KEY,
            }
        ]
    },
    (ApiKey.DESCRIBE_ACLS, 3): {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
    (ApiKey.CREATE_ACLS, 3): {
        "creations": [
            {
                "resource_type": 4,
                "resource_name": "kafka-cluster",
                "resource_pattern_type": 3,
                "principal": "User:mallory",
                "host": "*",
                "operation": 2,
                "permission_type": 3,
            }
        ]
    },
    (ApiKey.DELETE_ACLS, 3): {
        "filters": [
            {
                "resource_type_filter": 1,
                "pattern_type_filter": 1,
                "operation": 1,
                "permission_type": 1,
            }
        ]
    },
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1): {},
    (ApiKey.ALTER_CLIENT_QUOTAS, 1): {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": SLUICE[0]}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0}],
            }
        ]
    },
    (ApiKey.UPDATE_FEATURES, 1): {
        "feature_updates": [
            {"feature": "share.version", "max_version_level": 0, "upgrade_type": 2}
        ],
        "validate_only": True,
    },
    (ApiKey.UNREGISTER_BROKER, 0): {"broker_id": 77},
    (ApiKey.ADD_RAFT_VOTER, 0): {"voter_id": 77},
    (ApiKey.REMOVE_RAFT_VOTER, 0): {"voter_id": 77},
}


def resource(kind: int, name: str, key: str, value: str) -> dict[str, Any]:
    """Return a resource of a request that sets one config."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": key, "value": value}],
    }


def ask(talk: Talk, key: int, version: int, fields: dict[str, Any]) -> Any:
    """Return the decoded reply to a request with these fields; None if the connection was closed."""
    api = api_of(key, version)
    body = encode(make_request(api, fields))
    tagged = api.request_header_version == 2
    talk.send(f.request(key, version, talk.next_id(), body, tagged=tagged))
    reply = talk.receive()
    if reply is None:
        return None
    return decode_response(api, reply[1:] if api.response_header_version else reply)


def alter(talk: Talk, key: int, version: int, changes: list[dict[str, Any]]) -> Any:
    """Return the reply to a request that changes the configs of these resources."""
    return ask(talk, key, version, {"resources": changes})


def codes(reply: Any) -> set[int]:
    """Return the error codes of a reply, wherever they are."""
    found = {int(reply.error_code)} if hasattr(reply, "error_code") else set()
    for name in ("results", "entries", "responses", "filter_results"):
        found |= {int(each.error_code) for each in getattr(reply, name, None) or ()}
    return found


def offered(talk: Talk) -> set[int]:
    """Return the API keys in the reply to ApiVersions."""
    talk.send(f.request(f.API_VERSIONS, 0, talk.next_id()))
    reply = talk.receive()
    assert reply is not None
    (count,) = struct.unpack_from(">i", reply, 2)
    return {key for key, _, _ in struct.iter_unpack(">hhh", reply[6 : 6 + 6 * count])}


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


def custody(
    kind: str, kafka: KafkaCluster, files: Files, directory: Path, *forwarded: str
) -> SluiceProcess:
    """Return a Sluice that brings its own credentials; `forwarded` are credential APIs that it lets through."""
    further = {"forward_credential_apis": list(forwarded)} if forwarded else {}
    upstream: dict[str, object] = {}
    if kind == "certificate":
        upstream["tls"] = {
            "ca_file": str(files.ca),
            "cert_file": str(files.sluice.cert_file),
            "key_file": str(files.sluice.key_file),
            **further,
        }
    else:
        (directory / "password").write_text(SLUICE[1])
        upstream["sasl"] = {
            "mechanism": SCRAM_512 if kind == "scram" else PLAIN,
            "username": SLUICE[0],
            "password_file": str(directory / "password"),
            **further,
        }
    listener = MTLS if kind == "certificate" else SASL_PLAINTEXT
    settings: dict[str, object] = {"audit": {"file": str(directory / "audit.jsonl")}}
    return SluiceProcess(
        kafka.bootstrap_of(listener), directory, upstream_settings=upstream, settings=settings
    )


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


@pytest.mark.slow
def test_refusals_hold_after_sluice_has_authenticated_again(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """The guard is Sluice's, and does not depend on the state of its own login (KIP-368)."""
    with (
        custody("scram", kafka_secure, security_files, tmp_path) as process,
        Talk(process.port) as talk,
    ):
        end_s = time.monotonic() + 2 * LIFETIME_MS / 1000
        while time.monotonic() < end_s:
            assert talk.metadata()
            reply = ask(talk, ApiKey.CREATE_DELEGATION_TOKEN, 3, {"max_lifetime": 1})
            assert codes(reply) == {REFUSED}
            time.sleep(0.5)


@pytest.mark.slow
def test_kafkas_own_tools_say_what_is_wrong(
    sluice: SluiceProcess, java: Java, kafka_secure: KafkaCluster, tmp_path: Path
) -> None:
    """kafka-delegation-tokens and kafka-configs end with an error that says that the API is not there, or refused."""
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=10000\nrequest.timeout.ms=5000\n")
    for main, arguments, words in (
        (
            "org.apache.kafka.tools.DelegationTokenCommand",
            ("--create", "--max-life-time-period", "-1"),
            "CREATE_DELEGATION_TOKEN",
        ),
        (
            "kafka.admin.ConfigCommand",
            (
                *("--alter", "--entity-type", "users", "--entity-name", MALLORY[0]),
                *("--add-config", "SCRAM-SHA-256=[password=x]"),
            ),
            "SCRAM",
        ),
        (
            "kafka.admin.ConfigCommand",
            (
                *("--alter", "--entity-type", "brokers", "--entity-name", "1"),
                *("--add-config", "log.cleaner.threads=2"),
            ),
            "credential_guard",
        ),
    ):
        with pytest.raises(AssertionError) as failure:
            java.run_tool(
                main,
                *("--bootstrap-server", sluice.bootstrap, "--command-config", str(config)),
                *arguments,
            )
        assert words in str(failure.value)
