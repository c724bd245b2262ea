"""A Sluice with quotas before a real Kafka, and the users of these quotas.

The brokers' SASL listener must know `quota_users()`; limits are given by user, one user for each measurement.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages.sasl import plain
from tests.support.processes.sluice_process import SluiceProcess

ENTITY: Final = "entity"
CHANNEL: Final = "channel"
# The rates' rows, the same without a quota, then the clients, then who has a quota at the broker too.
_ROWS: Final = ("sync", "pipelined", "crowd", "reconnect", "disguise", "nodes")
_NAMES: Final = (
    *_ROWS,
    *(f"free{name}" for name in _ROWS),
    *("python", "librdkafka", "java", "franz", "member", "rdmember"),
    *("brokerquota", "ourquota", "bothquotas"),
)


def quota_users() -> dict[str, str]:
    """Name to password."""
    return {name: f"{name}-secret" for name in _NAMES}


def quota_sluice(
    cluster: KafkaCluster,
    directory: Path,
    quotas: Mapping[str, Mapping[str, float]],
    *,
    enforcement: str = ENTITY,
    upstream: str | None = None,
    advertise: str = "127.0.0.1",
) -> SluiceProcess:
    """Return a Sluice with these quotas: user to limits by key. It is not started."""
    entries = [{"user": user, **limits} for user, limits in quotas.items()]
    policies = [{"use": "quota", "config": {"enforcement": enforcement, "quotas": entries}}]
    return SluiceProcess(
        upstream or cluster.sasl_bootstrap,
        directory,
        advertise=advertise,
        variables={"SLUICE_POLICIES": json.dumps(policies)},  # JSON is YAML
    )


def introduce(sluice: SluiceProcess, user: str) -> None:
    """Ask for the brokers, as every real client does first: Sluice learns their addresses from the reply."""
    with Talk(sluice.port) as talk:
        answer = talk.plain(plain(user, quota_users()[user]))
        assert answer is not None, "the connection was closed"
        assert not answer.error_code, answer
        assert talk.metadata()
