"""Replies with broker addresses, and engines whose pool of replies is small."""

import struct
import uuid
from datetime import timedelta
from importlib import import_module

from kio.schema.errors import ErrorCode as KioErrorCode

from proxy.core.engine import Engine
from proxy.core.memory.pool_limits import PoolLimits
from tests.support.core.policies import Recorder
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from wire.codec import encode

SHARE_FETCH = 78


def share_fetch(number: int, size_bytes: int) -> tuple[bytes, bytes]:
    """A ShareFetch v1 request and its reply, which names a broker after the records; v1 has them at the end."""
    asked = f.request(SHARE_FETCH, 1, number, bytes(40), tagged=True)
    records = bytes(size_bytes)
    partition = struct.pack(">ih", 0, 0) + b"\x00" + struct.pack(">h", 0) + b"\x00"
    partition += struct.pack(">ii", 1, 1) + b"\x00"  # current leader
    length = len(records) + 1
    varint = bytearray()
    while length >= 0x80:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    partition += bytes(varint) + records + b"\x01" + b"\x00"
    topics = b"\x02" + bytes(16) + b"\x02" + partition + b"\x00"
    head = (
        struct.pack(">ih", 0, 0) + b"\x00" + struct.pack(">i", 0)
    )  # throttle, error, message, lock
    broker = b"\x02" + struct.pack(">i", 1) + f.compact("kafka-1.real") + struct.pack(">i", 9092)
    return asked, f.reply(number, head + topics + broker + b"\x00\x00\x00", tagged=True)


def bounded(pool_bytes: int, *policies: Recorder) -> Engine:
    """Return an engine with a pool of replies of this size."""
    return make_engine(policies, pool_limits=PoolLimits(response_bytes=pool_bytes))


def metadata_body(version: int, topics: int, partitions: int, brokers: int = 2) -> bytes:
    """Return a Metadata response body."""
    kinds = import_module(f"kio.schema.metadata.v{version}.response")
    parts = tuple(
        kinds.MetadataResponsePartition(
            error_code=KioErrorCode.none,
            partition_index=n,
            leader_id=1,
            leader_epoch=3,
            replica_nodes=(1, 2, 3)[: n % 4],
            isr_nodes=(1, 2)[: n % 3],
            offline_replicas=(),
        )
        for n in range(partitions)
    )
    return encode(
        kinds.MetadataResponse(
            throttle_time=timedelta(),
            brokers=tuple(
                kinds.MetadataResponseBroker(node_id=n, host=f"kafka-{n}", port=9092, rack="r")
                for n in range(brokers)
            ),
            cluster_id="cluster",
            controller_id=1,
            topics=tuple(
                kinds.MetadataResponseTopic(
                    error_code=KioErrorCode.none,
                    name=f"topic-{n}",
                    topic_id=uuid.UUID(int=n + 1),
                    partitions=parts,
                )
                for n in range(topics)
            ),
        )
    )
