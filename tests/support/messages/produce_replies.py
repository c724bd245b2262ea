"""Produce responses as kio makes them, and their frames."""

from types import ModuleType
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.produce.v12 import response as produce12
from kio.schema.produce.v13 import response as produce13

from wire.primitives import INT32

VERSIONS = [(produce12, 12), (produce13, 13)]
"""The last version that names topics, and the first that gives their ids."""
TOPIC_ID = UUID(int=7)


def produced(
    module: ModuleType,
    *,
    error: ErrorCode = ErrorCode.none,
    nodes: tuple[Any, ...] = (),
    topics: int = 1,
    partitions: int = 1,
) -> Any:
    """Return a Produce response; partitions with an error name their new leader in tag 0."""
    leader = module.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    partition = {"base_offset": 1, "record_errors": ()}
    if error:
        partition["current_leader"] = leader
    naming = {"topic_id": TOPIC_ID} if module is produce13 else {"name": "orders"}
    topic = module.TopicProduceResponse(
        **naming,
        partition_responses=tuple(
            module.PartitionProduceResponse(index=n, error_code=error, **partition)
            for n in range(partitions)
        ),
    )
    return module.ProduceResponse(responses=(topic,) * topics, node_endpoints=nodes)


def framed(body: bytes, tags: bytes = b"\x00") -> bytes:
    """Return the whole frame of a response with this body and these header tags."""
    return INT32.pack(4 + len(tags) + len(body)) + bytes(4) + tags + body
