"""A broker with quotas of its own behind a Sluice with others: three users, each with both.

The load uses the bootstrap port, and between Sluice and the broker is a tap: it sees the throttle time that the
broker wrote, the client sees the one that Sluice made of it.
"""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from bench.harness.ports import free_ports
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import LISTENER
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.messages.quota_messages import ALTER, alter_body, read_alter_reply
from tests.support.messages.raw import receive
from tests.support.quotas.quota_load import Load, run
from tests.support.quotas.quota_rows import Row, Tally
from tests.support.quotas.quota_setup import quota_sluice, quota_users
from tests.support.quotas.quota_tap import Tap, answered

LOW: Final = 5.0
HIGH: Final = 20.0
# User to requests per second: Sluice's limit, and the broker's limit of bytes converted to requests.
LIMITS: Final = {"brokerquota": (HIGH, LOW), "ourquota": (LOW, HIGH), "bothquotas": (LOW, LOW)}
TAP_ADDRESS: Final = "127.0.16.1"
_RECORD_BYTES: Final = 4_000


@dataclass(frozen=True, slots=True)
class Joined:
    """The results; the broker's throttle times are in the order of its replies."""

    began: float
    tallies: dict[str, Tally]
    broker_ms: dict[str, list[int]]


def measure_joined(cluster: KafkaCluster, folder: Path, seconds: float) -> Joined:
    """Run the three users for so long."""
    body = _produce_body(Topics(cluster.bootstrap, 1).make(1))
    request_bytes = len(f.request(f.PRODUCE, 7, 1, body, client_id="load-brokerquota")) - 4
    broker = cluster.brokers[1]
    _set_at_broker(
        broker.host,
        broker.port,
        {user: theirs * request_bytes for user, (_, theirs) in LIMITS.items()},
    )
    port = free_ports(TAP_ADDRESS)
    sluice = quota_sluice(
        cluster,
        folder,
        {user: {"request_rate": ours} for user, (ours, _) in LIMITS.items()},
        upstream=f"{TAP_ADDRESS}:{port}",
    )
    with Tap([(TAP_ADDRESS, port)], [(broker.host, broker.further[LISTENER])]) as tap:
        sluice.start()
        try:
            rows = [Row(user, produce=body) for user in LIMITS]
            load = Load(sluice.address, [sluice.port], rows, quota_users())
            began = run([load], seconds)
        finally:
            sluice.stop()
    told = {
        user: [
            exchange.throttle_ms or 0
            for exchange in answered(tap.talks_of(f"load-{user}"), 0, float("inf"))
        ]
        for user in LIMITS
    }
    return Joined(began, load.tallies, told)


def _produce_body(topic: str) -> bytes:
    """Produce v7, acks=1, one record for partition 0."""
    batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    batch.append(0, None, None, b"x" * _RECORD_BYTES, [])
    records = bytes(batch.build())
    return (
        f.string(None)
        + struct.pack(">hi", 1, 30_000)
        + struct.pack(">i", 1)
        + f.string(topic)
        + struct.pack(">iii", 1, 0, len(records))
        + records
    )


def _set_at_broker(host: str, port: int, byte_rates: dict[str, float]) -> None:
    entries = [
        ((("user", user),), {"producer_byte_rate": float(round(rate))})
        for user, rate in byte_rates.items()
    ]
    with socket.create_connection((host, port), 60) as sock:
        sock.sendall(f.request(ALTER, 1, 1, alter_body(entries), tagged=True))
        (size,) = struct.unpack(">i", receive(sock, 4))
        answers = read_alter_reply(receive(sock, size)[5:])
    assert [answer.code for answer in answers] == [0] * len(entries), answers
