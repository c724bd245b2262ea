"""The example ask_first before a real Kafka: requests wait for another service, and one that hangs delays no end."""

import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import PolicyViolationError

from bench.harness.ports import free_ports
from tests.support.faults.rights_service import rights_service
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.processes.sluice_process import SluiceProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "ask_first"
LONG_SECONDS = 60


def wait_until(condition: Callable[[], object]) -> None:
    """Look until it is so, for LONG_SECONDS."""
    ends = time.monotonic() + LONG_SECONDS
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def by_librdkafka(bootstrap: str, topic: str) -> str:
    """Create a topic; return "" or the error's name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=LONG_SECONDS)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def by_kafka_python(bootstrap: str, topic: str) -> str:
    """As above."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=LONG_SECONDS * 1000)
    try:
        admin.create_topics([PythonNewTopic(topic, 1, 1)])
    except PolicyViolationError:
        return "POLICY_VIOLATION"
    finally:
        admin.close()
    return ""


def lookups(listen: str) -> set[str]:
    """Return the samples of the example's counter from the page of metrics."""
    with urllib.request.urlopen(f"http://{listen}/metrics") as page:
        lines: list[str] = page.read().decode().splitlines()
    return {line for line in lines if line.startswith("sluice_custom_rights_lookups_total")}


def counted(**results: int) -> set[str]:
    """Return the samples that are expected."""
    return {
        f'sluice_custom_rights_lookups_total{{policy="rights",result="{result}"}} {count}.0'
        for result, count in results.items()
    }


def test_requests_wait_for_the_answer_of_a_service(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """They are held while the service is silent, then done or refused as it says. The counter survives a reload.

    A drain ends the wait of a request, and the end of the process does not wait for the thread.
    """
    listen = f"127.0.0.1:{free_ports()}"
    with rights_service() as rights, ThreadPoolExecutor(2) as pool:
        policy: dict[str, Any] = {
            "use": "ask_first:AskFirst",
            "name": "rights",
            "on_error": "close",
            "config": {"url": rights.url},
        }
        sluice = SluiceProcess(
            kafka_one.bootstrap,
            tmp_path / "sluice",
            variables={"PYTHONPATH": str(EXAMPLE)},
            settings={
                "identity": {"user": "al ice"},
                "admin": {"listen": listen},
                "policies": [policy],
            },
        )

        def reload(on_error: str) -> None:
            """Make the policy again, so that it asks again."""
            before = sluice.said().count("config_reloaded")
            sluice.reload(policies=[{**policy, "on_error": on_error}])
            wait_until(lambda: sluice.said().count("config_reloaded") > before)

        with sluice:
            creating = [
                pool.submit(create, sluice.bootstrap, f"{create.__name__}-{tmp_path.name}")
                for create in (by_librdkafka, by_kafka_python)
            ]
            wait_until(lambda: rights.questions)
            assert not any(each.done() for each in creating)
            rights.gate.set()
            assert [each.result() for each in creating] == ["", ""]
            assert rights.questions == ["/topics?user=al%20ice"]
            wait_until(lambda: lookups(listen) == counted(allowed=1))  # a page is kept for a second

            rights.status = 403
            reload("forward")
            assert by_librdkafka(sluice.bootstrap, "never") == "POLICY_VIOLATION"
            assert by_kafka_python(sluice.bootstrap, "never") == "POLICY_VIOLATION"
            wait_until(
                lambda: lookups(listen) == counted(allowed=1, refused=1)
            )  # a page is kept for a second

            rights.gate.clear()
            reload("close")
            waiting = pool.submit(by_librdkafka, sluice.bootstrap, "never")
            wait_until(lambda: len(rights.questions) == 3)
            began = time.monotonic()
        assert time.monotonic() - began < LONG_SECONDS  # the gate is still closed
        assert waiting.result() == "POLICY_VIOLATION"
