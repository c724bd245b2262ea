"""Kafka's names of settings: `sluice check` answers a Kafka spelling with ours (docs/use/kafka-names.md)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SEPARATORS: Final = re.compile(r"[.\-]")


class KafkaName(NamedTuple):
    """A setting of Kafka's. `ours`: the key path, `policy: key` for a policy's, "" if there is none; then `why`."""

    kafka: str
    ours: str
    why: str = ""


KAFKA_NAMES: Final = (
    KafkaName("queued.max.request.bytes", "memory.queued_max_request_bytes"),
    KafkaName("queued.max.requests", "memory.queued_max_requests"),
    KafkaName("socket.request.max.bytes", "limits.socket_request_max_bytes"),
    KafkaName("max.connections", "limits.max_connections"),
    KafkaName("max.connections.per.ip", "limits.max_connections_per_ip"),
    KafkaName("max.connection.creation.rate", "limits.max_connection_creation_rate"),
    KafkaName("connections.max.idle.ms", "limits.connections_max_idle_ms"),
    KafkaName("quota.window.num", "quota: quota_window_num"),
    KafkaName("quota.window.size.seconds", "quota: quota_window_size_seconds"),
    KafkaName("quota.producer.default", "quota: quotas", "a line with client_id: <default>"),
    KafkaName("quota.consumer.default", "quota: quotas", "a line with client_id: <default>"),
    KafkaName(
        "request.percentage", "quota: quotas", "Sluice limits requests per second: request_rate"
    ),
    KafkaName(
        "fetch.purgatory.purge.interval.requests",
        "",
        "completed requests keep no memory here",
    ),
    KafkaName(
        "producer.purgatory.purge.interval.requests",
        "",
        "completed requests keep no memory here",
    ),
    KafkaName("ssl.principal.mapping.rules", "listen.tls.principal.rules", "a list of rules"),
    KafkaName("request.timeout.ms", "upstream.request_timeout_ms"),
    KafkaName("socket.connection.setup.timeout.ms", "upstream.socket_connection_setup_timeout_ms"),
    KafkaName("bootstrap.servers", "upstream.bootstrap_servers"),
)


def find(key: str) -> KafkaName | None:
    """Return the setting that a key path ends with in Kafka's spelling, with dots, dashes or underscores."""
    plain = _plain(key)
    found = [
        each
        for each in KAFKA_NAMES
        if plain == _plain(each.kafka) or plain.endswith(f"_{_plain(each.kafka)}")
    ]
    return max(found, key=lambda each: len(each.kafka), default=None)


def _plain(key: str) -> str:
    return _SEPARATORS.sub("_", key.lower())
