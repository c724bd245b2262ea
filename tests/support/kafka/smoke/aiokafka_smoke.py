"""A smoke test of aiokafka: make a topic, write, read in a group, ask for the offsets, and fail where it must."""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

RECORDS = 300


async def main(bootstrap: str, topic: str) -> None:
    """Print what became of it as one line of JSON."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="smoke")
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])

    acked = 0
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, client_id="smoke", acks="all", enable_idempotence=True
    ) as producer:
        for first in range(0, RECORDS, 50):
            sent = [
                await producer.send(topic, key=str(number).encode(), value=bytes(1000))
                for number in range(first, first + 50)
            ]
            acked += len(await asyncio.gather(*sent))

    seen: set[bytes] = set()
    consumed = 0
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id="smoke",
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
    )
    async with consumer, asyncio.timeout(60):
        async for record in consumer:
            seen.add(record.key)
            consumed += 1
            if consumed >= RECORDS:
                await consumer.commit()
                break

    (described,) = await admin.describe_topics([topic])
    offsets = await admin.list_consumer_group_offsets(f"g-{topic}")
    deleted = await admin.delete_topics([f"{topic}-missing"])
    ((_, code),) = deleted.topic_error_codes
    await admin.close()
    said = {
        "partitions": len(described["partitions"]),
        "acked": acked,
        "consumed": consumed,
        "distinct": len(seen),
        "committed": sum(each.offset for each in offsets.values()),
        "missing": for_code(code).message,
    }
    print(json.dumps(said))  # noqa: T201 - its answer


asyncio.run(main(*sys.argv[1:]))
