"""A few records written and read by kafka-python, librdkafka and Java, with any security."""

import uuid
from pathlib import Path
from typing import Any, Final

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.java import Java
from tests.support.kafka.python_clients import CLIENTS
from tests.support.kafka.verifiable import config_file

COUNT: Final = 20
LIBRARIES: Final = ("kafka-python", "librdkafka", "Java")
LATENCY: Final = "org.apache.kafka.tools.EndToEndLatency"


def by_java(java: Java, bootstrap: str, topic: str, properties: str) -> None:
    """Kafka's EndToEndLatency: a producer, a consumer and an admin client; it compares each record that it reads."""
    said = java.run_tool(LATENCY, bootstrap, topic, str(COUNT), "all", "20", properties)
    assert "Percentiles" in said, said


def by_python(library: str, bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    """A producer and a consumer of kafka-python or librdkafka."""
    values = [b"%d" % number for number in range(COUNT)]
    CLIENTS[library].write(bootstrap, topic, values, 1, "all", "none", **settings)
    read = CLIENTS[library].read(bootstrap, topic, 1, COUNT, **settings)
    assert [each.value for each in read] == values


def move(
    library: str, java: Java, bootstrap: str, topic: str, security: ClientSecurity, folder: Path
) -> str:
    """Write and read COUNT records; return the client id."""
    client_id = f"c-{uuid.uuid4()}"
    if library == "Java":
        config = {"client.id": client_id, **security.java()}
        by_java(java, bootstrap, topic, config_file(folder / f"{client_id}.properties", config))
    elif library == "librdkafka":
        settings = {"client.id": client_id, **security.librdkafka()}
        by_python(library, bootstrap, topic, settings)
    else:
        by_python(library, bootstrap, topic, {"client_id": client_id, **security.kafka_python()})
    return client_id
