"""The page of refusals has what the users of four client libraries see, with a real Kafka."""

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.support.kafka.franz_go import FranzUnavailableError, franz_program
from tests.support.kafka.java import Java, kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, config_file
from tests.support.processes.sluice_process import SluiceProcess

Show = Callable[[str, str, str, str, int], str]
"""Takes the API, the bootstrap, the topic, the client id and the longest time in seconds."""
_EXCEPTION: Final = re.compile(
    r"(?:org\.apache\.kafka\.common\.errors|java\.lang)\.(\w+Exception)\b"
)
NOTHING: Final = "-"
"""No error within the time: the client tries again, or waits."""
ROOT = Path(__file__).parents[2]
AT_ONCE = 4
SOON_SECONDS, LATE_SECONDS = 4, 60
"""An error that the page names may take long on a busy machine; that none comes is looked at for a short time."""


def kafka_python(api: str, bootstrap: str, topic: str, client_id: str, wait_seconds: int) -> str:
    """Return the class of the exception."""
    try:
        if api == "Fetch":
            consumer = KafkaConsumer(
                bootstrap_servers=bootstrap, client_id=client_id, auto_offset_reset="earliest"
            )
            try:
                consumer.assign([PythonTopicPartition(topic, 0)])
                consumer.poll(timeout_ms=wait_seconds * 1000)
            finally:
                consumer.close(autocommit=False)
        else:
            producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                client_id=client_id,
                max_block_ms=wait_seconds * 1000,
                delivery_timeout_ms=wait_seconds * 1000,
                request_timeout_ms=wait_seconds * 500,
            )
            try:
                producer.send(topic, b"x", partition=0).get(timeout=wait_seconds + 1)
            finally:
                producer.close(timeout=1)
    except KafkaTimeoutError:
        return NOTHING
    except PythonKafkaError as error:
        return type(error).__name__
    return NOTHING


def librdkafka(api: str, bootstrap: str, topic: str, client_id: str, wait_seconds: int) -> str:
    """Return the name of the error code."""
    common = {"bootstrap.servers": bootstrap, "client.id": client_id}
    if api == "Fetch":
        consumer = Consumer(
            {
                **common,
                "group.id": "none",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            message = consumer.poll(wait_seconds)
            error = None if message is None else message.error()
        finally:
            consumer.close()
        return NOTHING if error is None else error.name()
    told: list[KafkaError] = []
    producer = Producer({**common, "message.timeout.ms": wait_seconds * 1000})
    try:
        producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: told.append(error))
    except KafkaException as error:
        return str(error.args[0].name())
    producer.flush(wait_seconds + 1)
    error = told[0] if told else None
    return NOTHING if error is None or error.code() == KafkaError._MSG_TIMED_OUT else error.name()


def franz_client(program: Path) -> Show:
    """Return the same for franz-go: the name of the error code."""

    def show(api: str, bootstrap: str, topic: str, client_id: str, wait_seconds: int) -> str:
        options = {"bootstrap": bootstrap, "topic": topic, "client-id": client_id, "shows": api}
        command = [f"-{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [program, *command, f"-seconds={wait_seconds}"],
            capture_output=True,
            text=True,
            timeout=wait_seconds + 60,
            check=True,
        )
        return done.stdout.strip()

    return show


def java_client(java: Java, folder: Path) -> Show:
    """Return the same for Kafka's command line tools: the class of the exception that they print."""

    def show(api: str, bootstrap: str, topic: str, client_id: str, wait_seconds: int) -> str:
        wait_ms = f"{wait_seconds * 1000}"
        settings = {
            "client.id": client_id,
            "max.block.ms": wait_ms,
            "delivery.timeout.ms": wait_ms,
            "request.timeout.ms": f"{wait_seconds * 500}",
            "linger.ms": "0",
        }
        name = config_file(folder / f"{client_id}.properties", settings)
        output = folder / f"{client_id}.out"
        common = ("--bootstrap-server", bootstrap, "--topic", topic, "--command-config", name)
        tool, more = PRODUCER, ["--max-messages", "1"]
        if api == "Fetch":
            tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
            more += ["--partition", "0", "--offset", "earliest", "--timeout-ms", wait_ms]
        java.start_tool(tool, *common, *more, output=output).wait(wait_seconds + 60)
        text = output.read_text() + output.with_suffix(".err").read_text()
        names = [name for name in _EXCEPTION.findall(text) if name != "TimeoutException"]
        return names[0] if names else NOTHING

    return show


def stated() -> dict[tuple[str, str, str], str]:
    """Return what the page says a library shows, by API, code and library."""
    page = (ROOT / "docs" / "extend" / "replies.md").read_text("utf-8")
    table = page[page.index("| API | code |") :].partition("\n\n")[0].splitlines()
    (_, _, *pairs), _, *rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in table)
    libraries = ", ".join(pairs).split(", ")
    return {
        (api, code.strip("`"), library): shown.strip("`")
        for api, code, *cells in rows
        for library, shown in zip(libraries, ", ".join(cells).split(", "), strict=True)
    }


def shower(library: str, folder: Path) -> Show:
    """Return the function that shows what this library's user sees; skip the test without its program."""
    if library == "Java":
        return java_client(kafka_java(), folder)
    if library == "franz-go":
        try:
            return franz_client(franz_program())
        except FranzUnavailableError as error:
            pytest.skip(str(error))
    return {"kafka-python": kafka_python, "librdkafka": librdkafka}[library]


@pytest.mark.parametrize(
    "library",
    [
        "kafka-python",
        "librdkafka",
        pytest.param("Java", marks=pytest.mark.slow),
        pytest.param("franz-go", marks=pytest.mark.slow),
    ],
)
def test_each_library_shows_what_the_page_says(
    library: str, kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """For each API and code: the exception of kafka-python and Java, the code of the others, or none."""
    show = shower(library, tmp_path)
    topic = Topics(kafka_one.bootstrap, 1).make()
    expected = {case: shown for case, shown in stated().items() if case[2] == library}
    variables = {
        "SLUICE_POLICIES": "[{use: 'tests.support.plugins.refuser:Refuser'}]",
        "PYTHONPATH": str(ROOT),
    }
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", variables=variables) as sluice,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        found = {
            (api, code, library): pool.submit(
                show, api, sluice.bootstrap, topic, f"{api}.{code}",
                SOON_SECONDS if shown == NOTHING else LATE_SECONDS,
            )
            for (api, code, library), shown in expected.items()
        }  # fmt: skip

    assert len(expected) == 9
    assert {case: each.result() for case, each in found.items()} == expected
