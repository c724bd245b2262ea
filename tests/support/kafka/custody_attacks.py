"""Requests by which a client takes the credentials of a proxy, and a Sluice that has some.

They are sent by a client that does not care what ApiVersions offers.
"""

import struct
from pathlib import Path
from typing import Any, Final

from policies.messages import decode_response, encode, make_request
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import MTLS, SASL_PLAINTEXT
from tests.support.kafka.kafka_sasl import PLAIN, SCRAM_512
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import SLUICE, Files
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import ApiKey, name_of
from wire.errors import ErrorCode

REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
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
                "name": "mallory",
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
        each_of = getattr(reply, name, None) or ()
        found |= {int(each.error_code) for each in each_of if hasattr(each, "error_code")}
    return found


def offered(talk: Talk) -> set[int]:
    """Return the API keys in the reply to ApiVersions."""
    talk.send(f.request(f.API_VERSIONS, 0, talk.next_id()))
    reply = talk.receive()
    assert reply is not None
    (count,) = struct.unpack_from(">i", reply, 2)
    return {key for key, _, _ in struct.iter_unpack(">hhh", reply[6 : 6 + 6 * count])}


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


def succeeded(talk: Talk) -> set[str]:
    """Try every attack, and to change a broker's config; return the APIs that were not refused."""
    change = {"resources": [resource(BROKER, "1", "log.cleaner.threads", "2")]}
    tried = {**ATTACKS, (ApiKey.ALTER_CONFIGS, 2): change}
    tried |= {(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1): change}
    replies = {key: codes(ask(talk, key, version, tried[key, version])) for key, version in tried}
    return {name_of(key) for key, found in replies.items() if found != {REFUSED}}
