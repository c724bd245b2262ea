"""`python -m bench.librdkafka_load`: many producers of librdkafka in one process, each at a low rate.

    librdkafka_load BOOTSTRAP TOPIC PRODUCERS RECORDS_PER_SECOND RECORD_BYTES RECORDS WARM

It prints the line of Kafka's ProducerPerformance that `bench.kafka_clients` reads. The latency of a record is from the
call that sends it to its acknowledgement.
"""

import sys
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.harness.figures import quantile


def main(arguments: list[str]) -> int:
    """Send all records at the rate; return the exit code."""
    bootstrap, topic = arguments[:2]
    count, rate, size, records, warm = map(int, arguments[2:])
    producers = [Producer({"bootstrap.servers": bootstrap, "acks": "all"}) for _ in range(count)]
    latencies: list[float] = []
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        latencies.append(message.latency() or 0.0)

    value = bytes(range(256)) * (size // 256 + 1)
    began = steady = time.monotonic()
    for number in range(records):
        if number == warm:
            steady = time.monotonic()
        wait_s = began + number / rate - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        own = producers[number % count]
        own.produce(topic, value[:size], on_delivery=on_delivery)
        own.poll(0)
    for each in producers:
        each.flush()
    if failed:
        print(failed[0], file=sys.stderr)
        return 1
    speed = (records - warm) / (time.monotonic() - steady)
    p50, p95, p99 = (1000 * quantile(latencies[warm:], share) for share in (0.5, 0.95, 0.99))
    print(
        f"{records - warm} steady state records sent, {speed:f} records/sec, "
        f"{p50:.2f} ms 50th, {p95:.2f} ms 95th, {p99:.2f} ms 99th."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
