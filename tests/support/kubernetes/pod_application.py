"""An application in a pod, a producer or a consumer. Each line of its output is a JSON object, as of Kafka's own tools.

The producer first connects to the ports of its arguments, over and over, as an application does that does not wait for
its sidecar. Then it produces numbers, one a record, until SIGTERM, and flushes what it has.
"""

import json
import signal
import socket
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

CONNECTS = 40


def say(what: str, **more: Any) -> None:
    """Write one line."""
    print(json.dumps({"name": what, "timestamp": int(time.time() * 1000), **more}), flush=True)  # noqa: T201 - its log


def connect(ports: list[int]) -> None:
    """Connect to each port CONNECTS times and tell how often that was refused."""
    refused = 0
    for _ in range(CONNECTS):
        for port in ports:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
            except ConnectionRefusedError:
                refused += 1
    say("connected", attempts=CONNECTS * len(ports), refused=refused)


def produce(bootstrap: str, topic: str, rate: int, linger_ms: int, flush_s: float) -> None:
    """Produce `rate` records a second until SIGTERM; then flush for `flush_s` at most.

    Records wait `linger_ms` for others, or for the flush.
    """
    is_ending = False

    def end(*_: object) -> None:
        nonlocal is_ending
        is_ending = True

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        value = (message.value() or b"").decode()
        if error is not None:
            say("producer_send_error", value=value, message=str(error))
        else:
            say("producer_send_success", value=value)

    signal.signal(signal.SIGTERM, end)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.num.messages": 100_000,
            "batch.size": 10_000_000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        }
    )
    began, sent = time.monotonic(), 0
    while not is_ending:
        while sent < (time.monotonic() - began) * rate:
            producer.produce(topic, b"%d" % sent, on_delivery=on_delivery)
            sent += 1
        producer.poll(0.01)
    say("flushing", queued=len(producer))
    left = producer.flush(flush_s)
    say("tool_data", sent=sent, left=left)


def consume(bootstrap: str, topic: str, group: str) -> None:
    """Read the topic as a member of a group until SIGTERM, and tell each value."""
    is_ending = False

    def end(*_: object) -> None:
        nonlocal is_ending
        is_ending = True

    signal.signal(signal.SIGTERM, end)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    while not is_ending:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say("record_data", value=(message.value() or b"").decode())
    consumer.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["consume", bootstrap, topic, group]:
            consume(bootstrap, topic, group)
        case ["produce", bootstrap, topic, rate, linger_ms, flush_s, *ports]:
            connect([int(each) for each in ports])
            produce(bootstrap, topic, int(rate), int(linger_ms), float(flush_s))
