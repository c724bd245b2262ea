"""Kafka's own verifiable clients: the sums of their JSON lines.

Trap: VerifiableProducer sets `retries=0`, so a test that breaks the way gives it a file with `IDEMPOTENT`, which is
merged after. A producer run to its end has said `shutdown_complete` and `tool_data`.
"""

import json
from pathlib import Path
from typing import Any, Final

PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
SHARE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableShareConsumer"
IDEMPOTENT: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "retries": "2147483647",
    "max.in.flight.requests.per.connection": "5",
    "delivery.timeout.ms": "120000",
}

Event = dict[str, Any]


def events(said: str, name: str | None = None) -> list[Event]:
    """The JSON lines of a tool's stdout, all or those called `name`."""
    lines = [
        json.loads(line)
        for line in said.splitlines()
        if line.startswith("{") and line.endswith("}")
    ]
    return [line for line in lines if name is None or line["name"] == name]


def acked_values(said: str) -> list[str]:
    """The values a VerifiableProducer had acked; AssertionError when it reported a single error."""
    errors = events(said, "producer_send_error")
    assert not errors, errors[:3]
    return [event["value"] for event in events(said, "producer_send_success")]


def consumed_values(said: str) -> list[str]:
    """The values a verbose verifiable consumer read, in its order; failed commits are errors."""
    failed = [event for event in events(said, "offsets_committed") if not event["success"]]
    assert not failed, failed[:3]
    return [event["value"] for event in events(said, "record_data")]


def config_file(path: Path, config: dict[str, str]) -> str:
    """Writes a properties file and returns its name, for `--command-config`."""
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return str(path)
